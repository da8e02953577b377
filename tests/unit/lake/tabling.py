"""Rows, staged outcomes and commits for tests of lake tables."""

from collections.abc import Sequence
from pathlib import Path

import duckdb
import pyarrow as pa

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.commit import Commit, CommitResult
from aggregator.lake.cycle.ranges import Span, SpanProgress, StagingOutcome
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.tables.port import Tables

NAME = "eu.orders"  # a name with a dot is one name, not a namespace
FIRST, SECOND = CentralPartition("eu.orders", "AAA", 0), CentralPartition("eu.orders", "AAA", 1)


def rows(count: int, **columns: pa.Array) -> pa.Table:
    """So many rows: the fixed columns without values, then these."""
    fixed = [pa.nulls(count, field.type) for field in FIXED_COLUMNS]
    table = pa.Table.from_arrays(fixed, schema=FIXED_COLUMNS)
    for name, column in columns.items():
        table = table.set_column(table.column_names.index(name), name, column) if name in FIXED_COLUMNS.names else (
            table.append_column(name, column)
        )  # fmt: skip
    return table


def ids(*values: int) -> pa.Table:
    """Rows with an `id`."""
    return rows(len(values), id=pa.array(values, pa.int64()))


def staged(tables: Tables, partition: CentralPartition, start: int, end: int, table: pa.Table) -> StagingOutcome:
    """What a task that read [start, end) of a partition has staged."""
    partition_columns = tables.partition_columns_by_table.get(NAME, ())
    stage = StagingWriter(tables.folder / NAME, None, promotes=tables.promotes, partition_columns=partition_columns)
    stage.add(table)
    return StagingOutcome((SpanProgress(Span(partition, OffsetRange(start, end)), end),), stage.close())


def commit(tables: Tables, *outcomes: StagingOutcome) -> CommitResult:
    """Bring outcomes in, from the newest version."""
    return Commit(tables, NAME, outcomes).run(tables.open(NAME))


def read(tables: Tables, columns: str = "*", order: str = "1") -> Sequence[tuple]:
    """The table as DuckDB reads its live files."""
    files = [str(Path(tables.folder) / NAME / path) for path in tables.open(NAME).live_paths()]
    with duckdb.connect() as connection:
        query = f"select {columns} from read_parquet({files}, union_by_name=true) order by {order}"
        return connection.sql(query).fetchall()


def read_ids(tables: Tables) -> list[int]:
    """Every `id`."""
    return [row[0] for row in read(tables, "id")]
