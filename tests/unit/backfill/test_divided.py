"""Restates of tables that are divided by day."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

from aggregator.backfill.restate import decoding
from aggregator.lake.columns import DAY_COLUMN, FIXED_COLUMNS
from aggregator.lake.files import Stage
from aggregator.lake.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.unit.backfill.restates import Restate, origins
from tests.unit.lake.tabling import FIRST, NAME, commit, read, staged


def timed(rows: pa.Table) -> pa.Table:
    """With a timestamp: a record a day."""
    times = pa.array([datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=at) for at in rows["_offset"].to_pylist()])
    place = rows.column_names.index("_timestamp")
    return rows.set_column(place, "_timestamp", times.cast(FIXED_COLUMNS.field("_timestamp").type))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
def test_a_table_that_is_divided_by_day_is_restated(kind, tmp_path):
    """New rows are staged under the columns of the table, of which the day is one: they say the day themselves."""
    tables = kind("hub", Folder(str(tmp_path)), {NAME: (DAY_COLUMN,)})
    commit(tables, staged(tables, FIRST, 0, 1, timed(origins(0, 1, 2))))
    handle, restate = tables.open(NAME), Restate(tables, 0, 2, [0, 1])
    config = SimpleNamespace(central={}, schemas=SimpleNamespace(), schemas_client={})
    task = decoding(config, tables, NAME, handle, [], restate.scratch)
    columns = pa.ipc.read_schema(pa.py_buffer(task.columns))
    stage = Stage(restate.scratch, columns, promotes=tables.promotes, divided_by=task.divided_by)
    stage.add(timed(origins(0, 1, plus=1000)))
    (outcome,) = restate.come.outcomes
    restate.come = restate.come._replace(outcomes=[replace(outcome, files=stage.close())])
    assert restate.run().rows == 2
    days = [(at, f"2026-01-0{at + 1}") for at in range(3)]
    assert read(tables, "_offset, cast(_timestamp at time zone 'UTC' as date)::varchar") == days
    assert read(tables, "id") == [(2,), (1000,), (1001,)]
