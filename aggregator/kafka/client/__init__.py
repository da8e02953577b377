"""What a process connects with: clients, credentials and how they are renewed, statistics."""
