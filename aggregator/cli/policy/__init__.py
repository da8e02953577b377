"""The commands of policies."""
