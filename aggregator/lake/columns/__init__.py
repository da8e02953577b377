"""Turns central records into columns: which ones a table has, and how Avro's types become Arrow's."""
