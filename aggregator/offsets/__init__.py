"""Translates positions of consumer groups from an edge to central, for consumers that move there."""
