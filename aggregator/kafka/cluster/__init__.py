"""This package reads and changes a cluster's metadata: its id, topics with ids and settings, groups, and rights."""
