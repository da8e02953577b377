"""Holds the commands of `aggregator backfill`."""
