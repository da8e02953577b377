"""Schemas: wire formats of records, clients of schema registries, and the schemas that are derived for central."""
