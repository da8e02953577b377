"""What every format takes and returns: a batch of records, its columns, its limits and its counts."""
