"""The command line: one module for each command group, and the code that all commands share for their output."""
