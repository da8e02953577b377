"""The report of a run, as JSON and as a page: what was found in each field, which rule decided, and the result."""
