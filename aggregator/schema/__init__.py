"""Schemas: wire format, registries, derived central schemas."""
