"""Reads rows of a table's live files, also of files that another tool wrote.

Invariant: pure but for reading. A partition column has the value that the table's metadata says. Other tools that
delete rows from a Delta table leave such columns out of the files that they rewrite.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc

from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.storage.folder import Folder, without_views
from aggregator.lake.tables.port import LiveFile


def live_rows(folder: Folder, file: LiveFile, columns: Sequence[str]) -> pa.Table:
    """Read some columns of a live file.

    Args:
        folder: The table's folder.
        file: A live file of a version of the table.
        columns: Names of the columns; one that came after the file was written is left out.

    Raises:
        OSError: it cannot be read.
    """
    with folder.parquet(file.path) as source:
        names = [one for one in columns if one in source.schema_arrow.names]
        rows = with_partition_columns(without_views(source.read(columns=names)), file)
    return rows.select([one for one in columns if one in rows.column_names])


def live_rows_where(folder: Folder, file: LiveFile, columns: Sequence[str], equal: Mapping[str, str | int]) -> pa.Table:
    """Read some of a file's columns, from the rows that have given values in other columns.

    Args:
        folder: The table's folder.
        file: A file of the table's version.
        columns: Names of the columns, of those that every table has.
        equal: Value by column, some of `columns`.

    Raises:
        OSError: it cannot be read.
    """
    with folder.parquet(file.path) as source:
        held = source.schema_arrow.names
    partition_values = {name: value for name, value in file.partition if name not in held}
    if any(partition_values[name] != str(value) for name, value in equal.items() if name in partition_values):
        return FIXED_COLUMNS.empty_table().select(columns)
    conditions = [pc.field(name) == value for name, value in equal.items() if name in held]
    names = [one for one in columns if one in held]
    return with_partition_columns(
        folder.rows(file.path, names, reduce(and_, conditions) if conditions else None), file
    ).select(columns)


def with_partition_columns(rows: pa.Table, file: LiveFile) -> pa.Table:
    """Rows of a file with the columns that only the table's metadata has; those of records as text."""
    for name, value in file.partition:
        if name not in rows.column_names:
            kind = FIXED_COLUMNS.field(name).type if name in FIXED_COLUMNS.names else pa.string()
            rows = rows.append_column(name, pa.repeat(pa.scalar(value, pa.string()).cast(kind), len(rows)))
    return rows
