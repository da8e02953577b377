"""The terminal side of all commands: printing, logging and asking."""
