"""Replication copies the records of every edge to central, each exactly once."""
