"""This package reads records and the ends of logs, and names each fault on the way."""
