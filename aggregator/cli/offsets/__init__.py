"""Holds the commands of `aggregator offsets`."""
