"""Upkeep of the lake's tables: merges small files, and removes files that no version names."""
