"""Strips JSON values that have no schema: strict parsing, an allow list of paths, and one form of output."""
