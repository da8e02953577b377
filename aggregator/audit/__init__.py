"""The audit: every record of an edge, looked for at central and in the lake; what was not compared is told."""
