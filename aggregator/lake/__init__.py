"""The lake writes committed ranges of central topics as rows of tables, and commits the positions with the rows."""
