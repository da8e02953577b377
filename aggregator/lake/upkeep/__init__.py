"""Upkeep of the tables: fewer files, and nothing that no version names."""
