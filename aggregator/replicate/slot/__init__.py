"""A slot is the long Spark task that owns flows for an epoch: it polls, strips, produces and commits."""
