"""Finds the schema that a record was written with, and judges whether the topic may use it."""
