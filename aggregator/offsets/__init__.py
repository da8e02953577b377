"""Positions of consumer groups: what one at an edge is at central, for consumers that move there."""
