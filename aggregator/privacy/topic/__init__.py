"""Strips the records of one topic: keys, values and headers, in any format."""
