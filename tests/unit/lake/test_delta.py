"""Rule G on Delta: positions and files in one commit, one of two writers wins, nothing is rebased in silence."""

import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from aggregator.coordinates import OffsetRange
from aggregator.errors import Failed
from aggregator.kafka.committed import CentralPartition
from aggregator.lake.columns import FIXED_COLUMNS
from aggregator.lake.commit import Commit
from aggregator.lake.files import Stage
from aggregator.lake.ranges import Outcome, Reached, Span
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.port import CommitConflict

FIRST, SECOND = CentralPartition("eu.orders", "AAA", 0), CentralPartition("eu.orders", "AAA", 1)


@pytest.fixture
def tables(tmp_path) -> DeltaTables:
    return DeltaTables("hub", tmp_path)


def rows(count: int, **columns: pa.Array) -> pa.Table:
    fixed = [pa.nulls(count, field.type) for field in FIXED_COLUMNS]
    table = pa.Table.from_arrays(fixed, schema=FIXED_COLUMNS)
    for name, column in columns.items():
        table = table.append_column(name, column)
    return table


def staged(tables: DeltaTables, partition: CentralPartition, start: int, end: int, table: pa.Table) -> Outcome:
    stage = Stage(Path(tables.folder) / "orders", None)
    stage.add(table)
    return Outcome((Reached(Span(partition, OffsetRange(start, end)), end),), stage.close())


def ids(*values: int) -> pa.Table:
    return rows(len(values), id=pa.array(values, pa.int64()))


def read_ids(tables: DeltaTables) -> list[int]:
    return sorted(DeltaTable(tables.folder / "orders").to_pyarrow_table().column("id").to_pylist())


def commit(tables: DeltaTables, *outcomes: Outcome) -> object:
    return Commit(tables, "orders", outcomes).run(tables.open("orders"))


def test_files_and_positions_are_one_version(tables):
    """The first commit creates the table; rows and positions appear together."""
    assert tables.open("orders") is None
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    handle = tables.open("orders")
    assert handle.positions([FIRST, SECOND]) == {FIRST: 3}
    assert handle.rows() == 3
    assert read_ids(tables) == [1, 2, 3]
    assert DeltaTable(tables.folder / "orders").transaction_version("hub/orders/eu.orders@AAA-0") == 3


def test_two_handles_of_one_version_can_not_both_commit(tables):
    """The one that comes second conflicts and has committed nothing, for the same range and for another one."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    ours, same, other = (tables.open("orders") for _ in range(3))
    outcome = staged(tables, FIRST, 3, 4, ids(4))
    ours.commit(outcome.files, {FIRST: 4})
    with pytest.raises(CommitConflict):
        same.commit(staged(tables, FIRST, 3, 4, ids(4)).files, {FIRST: 4})
    with pytest.raises(CommitConflict):
        other.commit(staged(tables, SECOND, 0, 1, ids(5)).files, {SECOND: 1})
    assert read_ids(tables) == [1, 2, 3, 4]


def test_after_a_conflict_the_overtaken_range_is_dropped_and_another_goes_in(tables):
    """From a fresh read, what the other writer committed drops out and what it did not touch is committed."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    stale = tables.open("orders")
    commit(tables, staged(tables, FIRST, 3, 4, ids(4)))
    result = Commit(tables, "orders", [staged(tables, FIRST, 3, 4, ids(4)), staged(tables, SECOND, 0, 1, ids(5))]).run(
        stale
    )
    assert len(result.settled.dropped) == 1
    assert result.positions == {FIRST: 4, SECOND: 1}
    assert read_ids(tables) == [1, 2, 3, 4, 5]


def test_compaction_beside_a_commit_costs_a_retry_only(tables):
    """A rewrite of the files by another tool conflicts, and the retry from a fresh read goes in."""
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    stale = tables.open("orders")
    DeltaTable(tables.folder / "orders").optimize.compact()
    attempt = Commit(tables, "orders", [staged(tables, FIRST, 3, 4, ids(3))])
    assert attempt.run(stale).version is not None
    assert attempt.attempts == 2
    assert read_ids(tables) == [0, 1, 2, 3]


def test_many_writers_of_one_range_deliver_it_once(tables):
    """Creation, widening and commits race; every range is in the table once."""

    def write() -> None:
        for number in range(5):
            commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert read_ids(tables) == [0, 1, 2, 3, 4]


def test_two_creations_do_not_both_succeed(tables):
    """delta-rs lets both succeed unless told otherwise; the second would replace the columns of the first."""
    barrier, outcome = threading.Barrier(2), []

    def create() -> None:
        barrier.wait()
        try:
            tables.create("orders", FIXED_COLUMNS)
            outcome.append("created")
        except CommitConflict:
            outcome.append("conflict")

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome) == ["conflict", "created"]
    assert tables.open("orders").version == 0


def test_positions_only_grow(tables):
    """Delta itself accepts a smaller position; the hub does not."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    for offset in (3, 2):
        with pytest.raises(Failed, match="position"):
            tables.open("orders").commit([], {FIRST: offset})


def test_a_recreated_topic_has_positions_of_its_own(tables):
    """A position belongs to a topic's id."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    again = CentralPartition(FIRST.topic, "BBB", 0)
    assert tables.open("orders").positions([again]) == {}


def test_new_columns_are_added_before_the_rows(tables):
    """Wider rows are visible: the columns come in a commit of their own, nested ones too, and older rows have null."""
    small, wide = pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.string())])
    commit(tables, staged(tables, FIRST, 0, 1, rows(1, s=pa.array([{"x": 1}], small))))
    wider = rows(1, s=pa.array([{"x": 2, "y": "b"}], wide), at=pa.array([5], pa.timestamp("us")))
    commit(tables, staged(tables, FIRST, 1, 2, wider))
    found = DeltaTable(tables.folder / "orders").to_pyarrow_table().sort_by("at").to_pylist()
    assert [row["s"] for row in found] == [{"x": 2, "y": "b"}, {"x": 1, "y": None}]
    assert tables.open("orders").version == 3


def test_rows_that_do_not_fit_are_held_and_others_go_in(tables):
    """A changed type holds its own outcome by name."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    text = rows(1, id=pa.array(["x"]))
    result = commit(tables, staged(tables, FIRST, 1, 2, text), staged(tables, SECOND, 0, 1, ids(2)))
    (held,) = result.held
    assert held.partition == FIRST
    assert "id is int64 in the table and string in the schema" in held.reason
    assert read_ids(tables) == [1, 2]


def test_delta_types_are_narrowed(tables):
    """Delta has no time of day and no fixed bytes; everything else stays."""
    wide = pa.schema([("t", pa.list_(pa.time64("us"))), ("m", pa.map_(pa.string(), pa.binary(12))), ("d", pa.date32())])
    narrow = pa.schema([("t", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.binary())), ("d", pa.date32())])
    assert tables.narrowed(wide) == narrow
    tables.create("orders", narrow)
    assert tables.open("orders").schema() == narrow
