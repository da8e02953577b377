"""The long task that owns flows for an epoch: poll, strip, produce, commit."""
