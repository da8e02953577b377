"""Values that are JSON without a schema: read strictly, kept by an allow list of paths, written in one form."""
