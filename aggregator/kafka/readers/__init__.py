"""Records and ends of logs, read; what goes wrong on the way, by name."""
