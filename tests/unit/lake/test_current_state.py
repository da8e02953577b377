"""The current state: the latest row per key of its edge partition, deletes applied, whatever the order of arrival."""

import random
import shutil
import time
from datetime import date
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.config.lake_model import LakeConfig
from aggregator.errors import HoldError
from aggregator.lake import latest_rows
from aggregator.lake.current_state import CurrentState, CurrentStates
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict
from aggregator.lake.upkeep.compaction import compact
from aggregator.lake.upkeep.orphans import sweep
from tests.effort import turns
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
    change = CurrentState._change

    def overtaken(self, *arguments):
        if self is ours:
            other.refresh([FIRST], force=True)
        return change(self, *arguments)

    monkeypatch.setattr(CurrentState, "_change", overtaken)
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


class Lake:
    """A table whose rows come in and are altered in drawn ways, its current state, and what that must be."""

    def __init__(self, kind, folder: Path, chance: random.Random, key: tuple[str, ...]) -> None:
        self.tables = kind("hub", Folder(str(folder)))
        self.chance, self.key = chance, key
        self.begin()
        self.came = 0
        self.next = dict.fromkeys(range(2), 0)  # by edge partition

    def begin(self) -> None:
        """A new process knows nothing."""
        self.current = CurrentState(self.tables, self.tables.folder, NAME, self.key)

    def append(self, *, late: bool = False) -> None:
        """Some rows that follow those before; a late one is older than any, as one that was backfilled."""
        drawn = []
        for _ in range(self.chance.randint(1, 6)):
            partition, key = self.chance.randrange(2), self.chance.choice([b"a", b"b", b"c", b"d", b"e"])
            self.next[partition] += 1
            drawn.append((partition, key, 0, self.next[partition], self.chance.random() < 0.3))
        if late:
            drawn[0] = (0, b"a", 0, -1 - self.came, False)
        end = self.came + len(drawn)
        numbers = [None if deleted else self.chance.choice([None, 1, 2, 3]) for *_, deleted in drawn]
        widens = isinstance(self.tables, IcebergTables) and self.came < 10
        kind = pa.int32() if widens else pa.int64()
        table = events(*drawn).append_column("file", pa.array(numbers, kind))
        if self.chance.random() < 0.1:
            table = table.append_column(f"new{self.came}", pa.array(["x"] * len(drawn)))
        commit(self.tables, staged(self.tables, FIRST, self.came, end, table))
        self.came = end

    def delete(self) -> None:
        """As a person erases a key, with another tool."""
        handle = self.tables.open(NAME)
        kept = [row[3] for row in self.expected()]
        if kept:
            handle.table.delete(f"_offset = {self.chance.choice(kept)}")

    def compact(self, name: str) -> None:
        compact(self.tables, self.tables.folder / name, name)

    def expected(self) -> list[tuple]:
        """By DuckDB's own window over the table's rows."""
        files = [str(Path(self.tables.folder) / NAME / path) for path in self.tables.open(NAME).live_paths()]
        if not files:
            return []
        key = self.key[0] if self.key else "_key"
        query = f"""with every as (from read_parquet({files}, union_by_name=true)),
            newest as (from every where not _deleted and {key} is not null
                qualify row_number() over (partition by _partition, {key} order by _incarnation desc, _offset desc) = 1)
            select _partition, _key, _incarnation, _offset from newest where not exists (
                from every later where later._deleted and later._partition = newest._partition
                and later._key = newest._key
                and (later._incarnation, later._offset) > (newest._incarnation, newest._offset)) order by all"""
        with duckdb.connect() as connection:
            return connection.sql(query).fetchall()


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("key", [(), ("file",)], ids=["key of the record", "key of the value"])
@pytest.mark.parametrize("seed", turns(3, 40))
def test_new_rows_bring_it_to_what_all_rows_would(kind, tmp_path, seed, key, monkeypatch):
    """Rows that come in order or late, compactions of both tables, erasures and new processes, in any order."""
    print(f"seed {seed}")
    monkeypatch.setattr(latest_rows, "_FEWEST", seed % 2 * 200_000)
    chance = random.Random(seed)
    lake = Lake(kind, tmp_path, chance, key)
    lake.append()
    for _ in range(14):
        action = chance.choice(["append"] * 6 + ["late", "compact", "compact state", "delete", "new process"])
        match action:
            case "append" | "late":
                lake.append(late=action == "late")
            case "compact":
                lake.compact(NAME)
            case "compact state" if lake.tables.open(lake.current.table):
                lake.compact(lake.current.table)
            case "delete":
                lake.delete()
                lake.append()  # a refresh needs news
            case "new process":
                lake.begin()
        if chance.random() < 0.6:
            lake.current.refresh([FIRST], force=True)
            assert state(lake.tables, lake.current) == lake.expected()


@FORMATS
def test_a_key_of_the_value_joins_rows_whatever_their_records_keys(kind, tmp_path):
    """A tombstone deletes what its record key wrote last; a row without the key has no state; one without a key has."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME, ("number",))
    drawn = [(0, b"a", 0, 1, False), (0, b"b", 0, 2, False), (0, b"b", 0, 3, False), (0, None, 0, 4, False)]
    commit(tables, staged(tables, FIRST, 0, 4, events(*drawn).append_column("number", pa.array([1, 1, None, 2]))))
    current.refresh([FIRST])
    assert state(tables, current) == [(0, b"b", 0, 2), (0, None, 0, 4)]
    gone = events((0, b"a", 0, 5, True), (0, None, 0, 6, False)).append_column("number", pa.array([None, 2]))
    commit(tables, staged(tables, FIRST, 4, 6, gone))
    current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, b"b", 0, 2), (0, None, 0, 6)]
    commit(tables, staged(tables, FIRST, 6, 7, events((0, b"b", 0, 7, True))))
    current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, None, 0, 6)]


@pytest.mark.parametrize("key", [("flag",), ("_key", "flag"), ("day",)])
def test_a_key_by_which_the_table_is_divided_is_read_where_another_tool_left_it_out(key, tmp_path):
    """delta-rs rewrites files without the columns that their folder's name tells, and tells those as text."""
    tables = DeltaTables("hub", Folder(str(tmp_path)), {NAME: ("flag", "day")})
    current = CurrentState(tables, tables.folder, NAME, key)

    def come(first: int) -> None:
        table = events(*((0, b"a", 0, first + at, False) for at in range(3)))
        table = table.append_column("flag", pa.array([True, False, True]))
        days = pa.array([date(2026, 11, 1)] * 3)
        commit(tables, staged(tables, FIRST, first, first + 3, table.append_column("day", days)))

    come(0)
    current.refresh([FIRST])
    tables.open(NAME).table.delete("_offset = 0")
    come(3)
    current.refresh([FIRST], force=True)
    assert [row[3] for row in state(tables, current)] == ([5] if key == ("day",) else [4, 5])


def test_a_key_that_the_table_does_not_have_is_named(tmp_path):
    """The policy may drop the field, or it may be a struct; the table itself goes on."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    nested = events((0, b"a", 0, 1, False)).append_column("who", pa.array([{"id": 1}]))
    commit(tables, staged(tables, FIRST, 0, 1, nested))
    for name, why in (("number", "is not there"), ("who", "has parts"), ("_partition", "is no field")):
        with pytest.raises(HoldError, match=f"column {name} of its `key` {why}"):
            CurrentState(tables, tables.folder, NAME, (name,)).refresh([FIRST])


@FORMATS
def test_a_refresh_reads_what_came_and_rewrites_what_it_replaces(kind, tmp_path):
    """What it costs does not grow with the table's history, and files without such a key stay."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    for number, key in enumerate([b"a", b"b", b"c", b"b"]):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, key, 0, number, False))))
        if number == 2:
            before = set(tables.open(current.table).live_paths())
        current.refresh([FIRST], force=True)
    after = set(tables.open(current.table).live_paths())
    assert len(before) == 2
    assert len(before & after) == 1
    assert state(tables, current) == [(0, b"a", 0, 0), (0, b"b", 0, 3), (0, b"c", 0, 2)]


@FORMATS
def test_what_came_is_told_by_the_log_until_it_is_cleaned(kind, tmp_path):
    """Compacted files are told as they came; a removed row, or a log that is gone, tells nothing."""
    tables = kind("hub", Folder(str(tmp_path)))
    points = []
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, b"a", 0, number, False))))
        points.append(tables.open(NAME).point)
    first = points[0]
    compact(tables, tables.folder / NAME, NAME)
    handle = tables.open(NAME)
    assert len(handle.live_files()) == 1
    assert [file.rows for file in handle.appended_since(first)] == [1, 1]
    assert handle.appended_since(handle.point) == []
    handle.table.delete("_offset = 0")
    assert tables.open(NAME).appended_since(first) is None
    assert tables.open(NAME).appended_since(first._replace(table="another")) is None
    assert tables.open(NAME).appended_since(first._replace(version=100)) is None
    assert tables.open(NAME).appended_since(first._replace(version=-100)) is None


@pytest.mark.slow
@FORMATS
def test_what_was_altered_in_it_by_hand_is_brought_anew(kind, tmp_path):
    """It is derived, so nothing else stays in it, or out of it."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    commit(tables, staged(tables, FIRST, 0, 2, events((0, b"a", 0, 1, False), (0, b"b", 0, 2, False))))
    current.refresh([FIRST])
    tables.open(current.table).table.delete("_offset = 1")
    commit(tables, staged(tables, FIRST, 2, 3, events((0, b"c", 0, 3, False))))
    current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, b"a", 0, 1), (0, b"b", 0, 2), (0, b"c", 0, 3)]


def dropped(tables, name: str) -> None:
    """As a person does it, with the catalogue's own means where there is one."""
    if isinstance(tables, IcebergTables):
        handle = tables.open(name).table
        handle.catalog.drop_table(handle.name())
    shutil.rmtree(Path(tables.folder) / name)


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("which", ["table", "state"])
@pytest.mark.parametrize("again", [1, 4, 6])
def test_a_table_that_was_dropped_is_another_one(kind, tmp_path, which, again):
    """Its versions begin anew; a state that goes on from the former ones would lack rows, or keep what is no more."""
    tables = kind("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    for number in range(4):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, b"k%d" % number, 0, number, False))))
        current.refresh([FIRST], force=True)
    if which == "state":
        dropped(tables, current.table)
        first = 4
    else:
        dropped(tables, NAME)
        first = 0
    for number in range(first, first + again):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, b"n%d" % number, 1, number, False))))
    if which == "table":  # the state knows later positions until the table has come as far
        commit(tables, staged(tables, FIRST, again, 9, events((0, b"last", 1, 9, False))))
    for _ in range(2):
        current.refresh([FIRST], force=True)
    kept = [(0, b"k%d" % number, 0, number) for number in range(4)] if which == "state" else [(0, b"last", 1, 9)]
    came = [(0, b"n%d" % number, 1, number) for number in range(first, first + again)]
    assert state(tables, current) == sorted(kept + came)


@pytest.mark.slow
@pytest.mark.parametrize("what", ["a delete is rolled back", "a row is rolled back", "a branch becomes the main one"])
def test_another_line_of_snapshots_is_read_whole(tmp_path, what):
    """Iceberg's sequence numbers count the snapshots of all branches."""
    tables = IcebergTables("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    commit(tables, staged(tables, FIRST, 0, 2, events((0, b"a", 0, 1, False), (0, b"b", 0, 2, False))))
    handle = tables.open(NAME).table
    main, more = handle.current_snapshot().snapshot_id, events((0, b"x", 0, 3, False))
    if what == "a delete is rolled back":
        handle.delete("_offset = 1")
    else:
        branch = "audit" if "branch" in what else "main"
        if branch == "audit":
            handle.manage_snapshots().create_branch(main, branch).commit()
        handle.append(more.cast(handle.schema().as_arrow()), branch=branch)
    current.refresh([FIRST], force=True)
    handle = tables.open(NAME).table
    head = handle.refs()["audit"].snapshot_id if "branch" in what else main
    handle.manage_snapshots().create_branch(head, "main").commit() if "branch" in what else (
        handle.manage_snapshots().rollback_to_snapshot(main).commit()
    )
    commit(tables, staged(tables, FIRST, 2, 3, events((0, b"c", 0, 5, False))))
    current.refresh([FIRST], force=True)
    wanted = [(0, b"a", 0, 1), (0, b"b", 0, 2), (0, b"c", 0, 5)]
    assert state(tables, current) == wanted + ([(0, b"x", 0, 3)] if "branch" in what else [])


def test_an_origin_without_its_incarnation_is_older_than_any(tmp_path):
    """Whoever may write to a central topic can send such a header; it neither ends the lake nor hides a row."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    for number, incarnation in enumerate([None, 0, None, None]):
        commit(tables, staged(tables, FIRST, number, number + 1, events((0, b"a", incarnation, number, False))))
        current.refresh([FIRST], force=True)
    assert state(tables, current) == [(0, b"a", 0, 1)]


def test_a_struct_of_text_that_delta_rs_rewrote_can_be_read(tmp_path):
    """It leaves views within, of which pyarrow takes no rows."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    current = CurrentState(tables, tables.folder, NAME)
    buyer = pa.array([{"name": "x"}, {"name": "y"}])
    both = events((0, b"a", 0, 1, False), (0, b"b", 0, 2, False)).append_column("buyer", buyer)
    commit(tables, staged(tables, FIRST, 0, 2, both))
    current.refresh([FIRST])
    tables.open(NAME).table.update(updates={"_edge": "'eu'"}, predicate="_offset = 1")
    commit(tables, staged(tables, FIRST, 2, 3, events((0, b"c", 0, 3, False))))
    assert current.refresh([FIRST], force=True) is not None
    assert len(state(tables, current)) == 3


def test_what_nobody_thought_of_does_not_end_the_lake(tmp_path, monkeypatch, caplog):
    """The state is derived: it waits, and its table goes on."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, events((0, b"a", 0, 1, False))))
    lake = LakeConfig.model_validate({"path": str(tmp_path), "tables": {NAME: {"current_state": True}}})
    states = CurrentStates(lake, tables)
    monkeypatch.setattr(CurrentState, "_change", lambda *_: 1 / 0)
    states.refresh(CycleReport((TableReport(NAME, next_offsets={FIRST: 1}),)), force=True)
    assert "waits: ZeroDivisionError" in caplog.text
