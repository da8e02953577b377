"""The current state: the latest row per key of its edge partition, deletes applied, whatever the order of arrival."""

import time
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.lake.current_state import CurrentState
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict
from aggregator.lake.upkeep.orphans import sweep
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, rows, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])


def events(*drawn) -> pa.Table:
    """Rows of (partition, key, incarnation, offset, deleted); `id` is the place in the list."""
    kinds = {"_partition": pa.int32(), "_key": pa.binary(), "_incarnation": pa.int32(), "_offset": pa.int64()}
    columns = {name: pa.array([event[at] for event in drawn], kind) for at, (name, kind) in enumerate(kinds.items())}
    columns |= {"_deleted": pa.array([event[4] for event in drawn], pa.bool_())}
    numbers = [None if event[4] else at for at, event in enumerate(drawn)]
    return rows(len(drawn), **columns, id=pa.array(numbers, pa.int64()))


def state(tables, current: CurrentState) -> list[tuple]:
    """What an analyst reads."""
    files = [str(Path(tables.folder) / current.table / path) for path in tables.open(current.table).live_paths()]
    if not files:
        return []
    with duckdb.connect() as connection:
        query = f"select _partition, _key, _incarnation, _offset from read_parquet({files}) order by all"
        return connection.sql(query).fetchall()


@FORMATS
@pytest.mark.slow
def test_the_latest_row_of_each_key_without_the_deleted(kind, tmp_path):
    """Ordered by incarnation, then offset, per edge partition; a backfilled older row does not come back."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    assert current.refresh([FIRST]) is None
    first = events((0, b"a", 0, 1, False), (0, b"b", 0, 2, False), (1, b"a", 0, 0, False), (0, None, 0, 9, False))
    commit(tables, staged(tables, FIRST, 0, 4, first))
    assert current.refresh([FIRST]) is not None
    assert state(tables, current) == [(0, b"a", 0, 1), (0, b"b", 0, 2), (1, b"a", 0, 0)]
    commit(tables, staged(tables, FIRST, 4, 6, events((0, b"b", 0, 3, True), (0, b"a", 1, 0, False))))
    current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, b"a", 1, 0), (1, b"a", 0, 0)]
    commit(tables, staged(tables, FIRST, 6, 8, events((0, b"b", 0, 2, False), (0, b"a", 0, 7, False))))
    current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, b"a", 1, 0), (1, b"a", 0, 0)]
    assert tables.open(current.table).positions([FIRST]) == {FIRST: 8}
    assert current.refresh([FIRST], force=True) is None


@pytest.mark.slow
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.sampled_from([b"a", b"b", b"c"]),
            st.integers(0, 1),
            st.integers(0, 20),
            st.booleans(),
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda event: (event[0], event[2], event[3]),
    ),
    st.integers(2, 5),
)
def test_it_is_what_a_dictionary_would_hold(tmp_path_factory, drawn, cuts):
    """Any order, any cut into commits: the same as keeping the greatest (incarnation, offset) of each key."""
    folder = tmp_path_factory.mktemp("lake")
    tables = DeltaTables("hub", Folder(str(folder)))
    current = CurrentState(tables, tables.folder, NAME)
    expected: dict[tuple, tuple] = {}
    for at in range(0, len(drawn), cuts):
        part = drawn[at : at + cuts]
        commit(tables, staged(tables, FIRST, at, at + len(part), events(*part)))
        current.refresh([FIRST], force=True)
        for partition, key, incarnation, offset, deleted in part:
            expected[partition, key] = max(
                expected.get((partition, key), (-1, -1, False)), (incarnation, offset, deleted)
            )
        kept = {(*at, *row[:2]) for at, row in expected.items() if not row[2]}
        assert set(state(tables, current)) == kept


@FORMATS
@pytest.mark.slow
def test_columns_follow_the_table(kind, tmp_path):
    """A new column of the table is one of the state's."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    commit(tables, staged(tables, FIRST, 0, 1, events((0, b"a", 0, 1, False))))
    current.refresh([FIRST])
    wider = events((0, b"b", 0, 2, False)).append_column("new", pa.array(["x"]))
    commit(tables, staged(tables, FIRST, 1, 2, wider))
    current.refresh([FIRST], force=True)
    assert tables.open(current.table).schema() == tables.open(NAME).schema()
    assert len(state(tables, current)) == 2


@FORMATS
@pytest.mark.slow
def test_of_two_drivers_one_brings_it(kind, tmp_path, monkeypatch):
    """The other conflicts and leaves nothing that stays; an older view never replaces a newer state."""
    tables = kind("hub", Folder(str(tmp_path)))
    ours, other = CurrentState(tables, tables.folder, NAME), CurrentState(tables, tables.folder, NAME)
    commit(tables, staged(tables, FIRST, 0, 1, events((0, b"a", 0, 1, False))))
    ours.refresh([FIRST])
    commit(tables, staged(tables, FIRST, 1, 2, events((0, b"b", 0, 2, False))))
    stage = CurrentState._staged

    def overtaken(self, *arguments):
        if self is ours:
            other.refresh([FIRST], force=True)
        return stage(self, *arguments)

    monkeypatch.setattr(CurrentState, "_staged", overtaken)
    with pytest.raises(CommitConflict):
        ours.refresh([FIRST], force=True)
    assert len(state(tables, ours)) == 2
    sweep(tables, ours.table, now_s=time.time() + 2 * 86_400)
    live = tables.open(ours.table).referenced_paths()
    assert {path.name for path in (tmp_path / ours.table).glob("*.parquet")} <= live


def test_a_costly_refresh_rests(tmp_path):
    """It takes a share of the time; a drain does not wait for that."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, b"a", 0, number, False))))
        done = current.refresh([FIRST], force=number == 2)
        assert (done is None) == (number == 1)


def test_a_table_without_keys_has_an_empty_state(tmp_path):
    """Rows without a key are no state."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 2, ids(1, 2)))
    current = CurrentState(tables, tables.folder, NAME)
    current.refresh([FIRST])
    assert state(tables, current) == []
