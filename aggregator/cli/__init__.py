"""The command line: one module per command group, and what they share towards their reader."""
