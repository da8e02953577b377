"""A cluster's metadata: its id, topics, their ids and settings, and what a principal may do."""
