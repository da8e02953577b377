"""The compiled implementation of stripping: numba handles structure, and Python's operators handle distinct values."""
