"""Decides what a Parquet file of the lake holds beside its rows: encodings, compression, statistics."""
