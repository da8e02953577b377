"""Edges: heartbeats and availability."""
