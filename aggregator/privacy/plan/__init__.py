"""Compiles a writer schema and a policy into a plan: the action for every part of a value, and the central schema."""
