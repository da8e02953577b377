"""This package opens the Spark session, which places slots and lake tasks."""
