"""Restates of tables that are divided by day."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from aggregator.backfill.restate import decoding
from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.lake.columns.columns import DAY_COLUMN, FIXED_COLUMNS
from aggregator.lake.current_state import CurrentState
from aggregator.lake.origins import row_origins
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.unit.backfill.restates import FLOW, Restate, origins
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
    stage = StagingWriter(restate.scratch, columns, promotes=tables.promotes, partition_columns=task.partition_columns)
    stage.add(timed(origins(0, 1, plus=1000)))
    (outcome,) = restate.come.outcomes
    restate.come = restate.come._replace(outcomes=[replace(outcome, files=stage.close())])
    assert restate.run().rows == 2
    days = [(at, f"2026-01-0{at + 1}") for at in range(3)]
    assert read(tables, "_offset, cast(_timestamp at time zone 'UTC' as date)::varchar") == days
    assert read(tables, "id") == [(2,), (1000,), (1001,)]


CITIES = ["Rom", "New York", "Köln", "100%", "a/b:c", None]


def cities(rows: pa.Table) -> pa.Table:
    """With a city: one for each two records."""
    return rows.append_column("city", pa.array([CITIES[at // 2] for at in rows["_offset"].to_pylist()], pa.string()))


def whole(folder, columns: list[str]) -> list[dict]:
    """A Delta table as delta-rs reads it."""
    return DeltaTable(str(folder)).to_pyarrow_table(columns=columns).sort_by("_offset").to_pylist()


@pytest.mark.slow
@pytest.mark.parametrize("division", ["city", "_edge"])
def test_rows_deleted_by_delta_rs_are_gone_from_everywhere_and_the_others_whole(tmp_path, division):
    """It leaves what a table is divided by out of its files, and encodes their paths: both stand in the log alone."""
    tables, some = DeltaTables("hub", Folder(str(tmp_path)), {NAME: (division,)}), range(2 * len(CITIES))
    commit(tables, staged(tables, FIRST, 0, 1, cities(origins(*some))))
    DeltaTable(str(tmp_path / NAME)).delete("_offset % 2 = 1")
    state = CurrentState(tables, tables.folder, NAME)
    state.refresh([FIRST])
    current = whole(tmp_path / state.table, ["_offset", "_edge", "city"])
    assert current == [{"_offset": at, "_edge": "eu", "city": CITIES[at // 2]} for at in (6, 8, 10)]
    assert Restate(tables, 0, 5, [0, 2]).run().rows == 3
    rows = whole(tmp_path / NAME, ["_offset", "_edge", "city", "id"])
    assert [(row["_offset"], row["id"]) for row in rows] == [(0, 1000), (2, 1002), (6, 6), (8, 8), (10, 10)]
    assert [row["city"] for row in rows[2:]] == CITIES[3:]
    assert {row["_edge"] for row in rows} == {"eu"}


@pytest.mark.slow
@pytest.mark.parametrize("division", ["city", "_edge", "_topic", "_partition", "_incarnation", "_deleted"])
def test_an_audit_counts_the_rows_that_delta_rs_left(tmp_path, division):
    """Also where what tells their origin stands in the log alone."""
    tables = DeltaTables("hub", Folder(str(tmp_path)), {NAME: (division,)})
    commit(tables, staged(tables, FIRST, 0, 1, cities(origins(*range(6)))))
    DeltaTable(str(tmp_path / NAME)).delete("_offset % 2 = 1")
    live = tables.open(NAME).live_files()

    def found(source: EdgePartition) -> list[tuple[int, int, int]]:
        parts = [np.stack(one, axis=1).tolist() for one in row_origins(tables.folder / NAME, live, source)]
        return sorted(tuple(row) for rows in parts for row in rows)

    assert found(FLOW) == [(0, 0, 0), (0, 2, 0), (0, 4, 0)]
    for other in (FLOW._replace(edge="us"), FLOW._replace(topic="other"), FLOW._replace(partition=1)):
        assert found(other) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", ["city=Köln", "city=a%3Ab", "city=a[b]", "city=a%2Ab"])
def test_a_file_that_delta_rs_cannot_remove_by_its_path_is_not_replaced(tmp_path, path):
    """Another tool wrote the path in another way: old and new rows would both be in the table."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, origins(0, 1)))
    (name,) = tables.open(NAME).live_paths()
    (tmp_path / NAME / unquote(path)).mkdir()
    (tmp_path / NAME / name).rename(tmp_path / NAME / unquote(path) / name)
    (log,) = (one for one in (tmp_path / NAME / "_delta_log").glob("*.json") if name in one.read_text())
    log.write_text(log.read_text().replace(name, f"{path}/{name}"))
    with pytest.raises(HoldError, match="paths that delta-rs cannot remove"):
        Restate(tables, 0, 2, [0, 1]).run()
    assert tables.open(NAME).rows() == 2
