"""Spark SQL with the formats' own runtimes reads the tables that the hub writes without them, as DuckDB does.

The runtimes come from Maven Central through Spark's own Ivy, so this needs a network the first time.
"""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.upkeep.compaction import compact
from tests.chaos.spark_sql import by_spark
from tests.unit.lake.half_broken import half_broken
from tests.unit.lake.tabling import FIRST, NAME, commit, read, rows, staged

pytestmark = [pytest.mark.spark]

COLUMNS = (
    "id, _edge, cast(_timestamp as string), cast(price as string), cast(born as string), s.x, s.y, array_join(l, '-'),"
    " m['k'], new"
)
# Without _partition and _deleted: Iceberg's Spark runtime takes these two names for metadata columns of its own, and
# refuses a query that asks for them.


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_spark_sql_reads_every_row(kind, tmp_path):
    """Through both schema versions, divided by edge and day, before and after a compaction, with native types."""
    tables = {"delta": DeltaTables, "iceberg": IcebergTables}[kind](
        "hub", Folder(str(tmp_path)), {NAME: ("_edge", "_day")}
    )
    moment = datetime(2026, 1, 1, 23, 59, 59, 123456, tzinfo=UTC)
    for number, edge in enumerate(["eu", "us", "eu"]):
        columns = {
            "_timestamp": pa.array([moment], pa.timestamp("us", "UTC")),
            "_edge": pa.array([edge]),
            "_deleted": pa.array([False]),
            "id": pa.array([number]),
            "price": pa.array([Decimal("12.30")], pa.decimal128(9, 2)),
            "born": pa.array([date(1980, 2, 29)]),
            "s": pa.array([{"x": number, "y": None}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
            "l": pa.array([["a", "b"]]),
            "m": pa.array([[("k", number)]], pa.map_(pa.string(), pa.int64())),
        }
        columns |= {"new": pa.array(["x"])} if number == 2 else {}
        commit(tables, staged(tables, FIRST, number, number + 1, rows(1, **columns)))
    query = f"select {COLUMNS} from {{table:{NAME}}} order by id"
    at = "2026-01-01 23:59:59.123456"
    expected = [
        [number, edge, at, "12.30", "1980-02-29", number, None, "a-b", number, "x" if number == 2 else None]
        for number, edge in enumerate(["eu", "us", "eu"])
    ]
    assert by_spark(kind, tmp_path, query) == expected
    if kind == "iceberg":  # the query that the page of the lake tells, because a plain `*` is refused
        everything = by_spark(kind, tmp_path, f"select * except (_partition, _deleted) from {{table:{NAME}}}")
        assert len(everything) == len(expected)
    assert compact(tables, tables.folder / NAME, NAME).before == 2
    assert by_spark(kind, tmp_path, query) == expected
    assert [row[0] for row in read(tables, "id")] == [0, 1, 2]


def test_spark_sql_skips_files_by_every_bound(tmp_path):
    """A file that cannot be read is not opened where a predicate of any type leaves it out."""
    half_broken(tmp_path)
    predicates = (
        "text > '4'",
        "real > 4",
        "dec > 4",
        "rec.a > 4",
        "rec.b.c > 'v4'",
        "at > timestamp '2026-01-04 00:00:00 UTC'",
    )
    counts = (f"(select count(*) from {{table:{NAME}}} where {one})" for one in predicates)
    assert by_spark("delta", tmp_path, f"select {', '.join(counts)}") == [[1] * len(predicates)]
