"""Divides rows by a table's partition columns. Each combination of values is one part, with files of its own.

Invariant: a part's columns hold exactly the part's values. A reader of the files alone therefore sees what the table's
metadata says. Rows keep their order within a part.
"""

from collections.abc import Iterator

import pyarrow as pa

from aggregator.errors import HoldError
from aggregator.lake.columns.columns import DAY_COLUMN

PartitionValues = tuple[tuple[str, str | None], ...]
_INDEX = "hub.index"  # no column has this name, because it has a dot: fields are Avro names


def with_day(rows: pa.Table) -> pa.Table:
    """The rows with the UTC day of their timestamp; rows that have it already are unchanged.

    Raises:
        HoldError: the records have a field of that name that holds something else.
    """
    day = rows.column("_timestamp").cast(pa.date32())
    if DAY_COLUMN not in rows.column_names:
        return rows.append_column(DAY_COLUMN, day)
    if not rows.column(DAY_COLUMN).equals(day):
        raise HoldError(
            f"a table that is divided by day has no place for a field {DAY_COLUMN}",
            hint="divide the table by another column (`partition_by`)",
        )
    return rows


def split_by_partition(rows: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[PartitionValues, pa.Table]]:
    """One part of the rows for each combination of partition values.

    Args:
        rows: The rows to divide; at least one.
        by: Names of the partition columns; empty: one part holds everything.
    """
    if not by:
        yield (), rows
        return
    numbered = rows.select(by).append_column(_INDEX, pa.array(range(rows.num_rows), pa.int64()))
    groups = numbered.group_by(list(by), use_threads=False).aggregate([(_INDEX, "list")])
    for group in groups.to_pylist():
        yield tuple((name, text(group[name])) for name in by), rows.take(pa.array(group[f"{_INDEX}_list"]))


def text(value: object) -> str | None:
    """A value as the formats write it (Delta's protocol, "Partition Value Serialization")."""
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
