"""Names and describes fields: paths, types of leaves, and the formats that values have."""
