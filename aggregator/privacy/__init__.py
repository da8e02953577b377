"""Strips personal data from records: a policy and a schema decide what is left of each record."""
