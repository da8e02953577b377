"""Backfills: reading a past window of an edge again on purpose, beside the live flows, planned before it runs."""
