"""The engine: Spark's session, which places slots and lake tasks."""
