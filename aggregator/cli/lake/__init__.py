"""The commands of the lake."""
