"""Does one cycle of the lake for a table: which offsets it reads, the Spark job, and the commit."""
