"""The audit: looks for every record of an edge at central and in the lake, and reports what was not compared."""
