"""Reaches folders and object stores, and stages Parquet files in them."""
