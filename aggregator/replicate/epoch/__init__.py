"""Epochs decide which slot replicates which flow, from which position, and for how long."""
