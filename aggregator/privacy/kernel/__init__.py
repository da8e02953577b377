"""The compiled implementation of stripping: structure in numba, operators in Python over distinct values."""
