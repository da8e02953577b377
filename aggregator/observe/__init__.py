"""Observation: what a running hub shows of itself: monitor, status, metrics."""
