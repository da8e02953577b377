"""Privacy: from policy and schema to what is left of a record."""
