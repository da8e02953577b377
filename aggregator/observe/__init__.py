"""Observation: shows the state of a running hub, by its monitor, its status and its metrics."""
