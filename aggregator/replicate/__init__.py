"""Replication: edge to central, exactly once."""
