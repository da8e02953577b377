"""Checks that a table's rows are exactly those in its files. The hub's own readers identify columns by name, and read
every row of a file.

Invariant: a feature that changes what the files mean is refused by name. Such features are rows marked as deleted,
columns under other names, and files that are partitioned in another way. A rewrite that ignored them would change what
the table shows.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from aggregator.errors import HoldError

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.name_mapping import MappedField

    from aggregator.lake.storage.folder import Folder

_MAPPING = "delta.columnMapping.mode"


def check_plain_delta(table: "DeltaTable", folder: "Folder") -> None:
    """Refuse a Delta table with deletion vectors or mapped columns.

    Raises:
        HoldError: names what is beside the files.
    """
    if "deletionVectors" in (table.protocol().reader_features or ()):
        raise HoldError(
            f"table {folder}: another tool marks rows as deleted beside their files",
            hint="let that tool rewrite them (in Spark: REORG TABLE … APPLY (PURGE)) and drop the feature",
        )
    mode = table.metadata().configuration.get(_MAPPING) or "none"
    if mode != "none":
        raise HoldError(
            f"table {folder}: its columns have other names than those in its files ({_MAPPING} is {mode})",
            hint="send the topic to another table (`lake:`), or let that tool write this one anew without the feature",
        )


def check_plain(table: "Table", tasks: "Iterable[FileScanTask]") -> None:
    """Refuse an Iceberg table with delete files, renamed columns, or files that are divided in an earlier way.

    Args:
        table: One version.
        tasks: Its files.

    Raises:
        HoldError: names what is beside the files.
    """
    where, spec = f"table {table.location()}", table.spec().spec_id
    for task in tasks:
        if task.delete_files:
            raise HoldError(
                f"{where}: another tool marked rows as deleted beside their files",
                hint="let that tool rewrite them (in Spark: rewrite_data_files with delete-file-threshold 1)",
            )
        if task.file.spec_id != spec:
            raise HoldError(
                f"{where}: its partitioning was changed, and some of its files are divided in the earlier way",
                hint="let the tool that changed it rewrite them (in Spark: rewrite_data_files with rewrite-all)",
            )
    mapping = table.name_mapping()
    if renamed := sorted(_renamed(table, mapping or ())):
        raise HoldError(
            f"{where}: another tool renamed {', '.join(renamed)}; its files may have the earlier names",
            hint="send the topic to another table (`lake:`): a column that is renamed back keeps both names there",
        )


def _renamed(table: "Table", fields: "Iterable[MappedField]") -> Iterator[str]:
    """Columns that files may have under another name than the table, as `earlier to present`."""
    schema = table.schema()
    there = set(schema.field_ids)
    for one in fields:
        if one.field_id in there:
            field = schema.find_field(one.field_id)
            yield from (f"{name} to {field.name}" for name in one.names if name != field.name)
            yield from _renamed(table, one.fields)
