"""Holds the commands of `aggregator policy`."""
