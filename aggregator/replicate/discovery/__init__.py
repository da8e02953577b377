"""Which topics an edge has, what becomes of each at central, and when that changes."""
