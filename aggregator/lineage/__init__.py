"""Tells a lineage service, by OpenLineage, from which edges and fields each table comes, and what was stripped."""
