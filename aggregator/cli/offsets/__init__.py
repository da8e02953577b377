"""The commands of positions."""
