"""Holds the commands of `aggregator lake`."""
