"""Stripping as plainly as it can be said, on fastavro: what the real one is compared with."""
