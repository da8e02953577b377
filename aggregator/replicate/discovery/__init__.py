"""Discovery finds which topics an edge has and what becomes of each at central, and notices changes."""
