"""What a command prints, logs and asks."""
