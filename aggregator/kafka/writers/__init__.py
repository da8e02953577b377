"""This package writes records: in transactions, as heartbeats, or without a guarantee."""
