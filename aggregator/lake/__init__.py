"""The lake: committed ranges of central topics as rows of tables, positions in the same commit."""
