"""The page: what a hub's monitor knows, in a browser."""
