"""The command line: one module per command group, and what their output has in common."""
