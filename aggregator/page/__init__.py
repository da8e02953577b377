"""The page: shows in a browser what a hub's monitor knows."""
