"""Writes what is said of a Delta table into its metadata.

Invariant: each commit is tried once, as all commits of the hub are.
"""

from deltalake import CommitProperties, DeltaTable

from aggregator.lake.tables.port import Description

ONCE = CommitProperties(max_commit_retries=0)
_COMMENT = "comment"


def describe(table: DeltaTable, description: Description) -> bool:
    """Write the comments and properties that the table lacks; delta-rs makes a commit for each column.

    Returns:
        Whether anything was written.
    """
    fields = {one.name: one.metadata for one in table.schema().fields}
    comments = description.new_comments({name: found.get(_COMMENT, "") for name, found in fields.items()})
    properties = description.new_properties(table.metadata().configuration)
    for name, text in comments.items():
        table.alter.set_column_metadata(name, fields[name] | {_COMMENT: text}, commit_properties=ONCE)
    if properties:
        table.alter.set_table_properties(properties, raise_if_not_exists=False, commit_properties=ONCE)
    return bool(comments or properties)
