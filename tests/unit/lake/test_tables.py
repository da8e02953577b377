"""Rule G on both formats: positions and files in one commit, one of two writers wins, nothing is rebased in silence."""

import json
import pickle
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import FatalError
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.cycle.commit import Commit
from aggregator.lake.cycle.ranges import SHOWN_RANGES, Span, SpanProgress, StagingOutcome, committable
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict
from aggregator.lake.upkeep.orphans import sweep
from tests.unit.lake.tabling import FIRST, NAME, SECOND, commit, ids, read, read_ids, rows, staged


@pytest.fixture(params=[DeltaTables, IcebergTables], ids=["delta", "iceberg"])
def tables(request, tmp_path):
    return request.param("hub", Folder(str(tmp_path)))


@pytest.mark.slow
def test_files_and_positions_are_one_version(tables):
    """The first commit creates the table; rows and positions appear together."""
    assert tables.open(NAME) is None
    first = commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    handle = tables.open(NAME)
    assert handle.positions([FIRST, SECOND]) == {FIRST: 3}
    assert (handle.rows(), handle.version) == (3, first.version)
    assert read_ids(tables) == [1, 2, 3]


def histories(tables):
    """What the commits say of themselves, by each format's own library, the oldest first."""
    if isinstance(tables, DeltaTables):
        return [one for one in reversed(DeltaTable(str(tables.folder / NAME)).history()) if "hub.ranges" in one]
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tables.folder / 'catalog.db'}")
    snapshots = catalog.load_table(("lake", NAME)).metadata.snapshots
    summaries = [one.summary.additional_properties for one in snapshots]
    return [one for one in summaries if "hub.ranges" in one]


@pytest.mark.slow
def test_history_says_which_commit_brought_a_row(tables):
    """Rows and offsets of each; what begins a partition, and what moved over records that have no row."""
    commit(tables, staged(tables, FIRST, 5, 8, ids(1, 2, 3)))
    both = [
        staged(tables, FIRST, 8, 20, ids(4)),
        staged(tables, FIRST, 20, 21, ids(5)),
        staged(tables, SECOND, 0, 1, ids(6)),
    ]
    Commit(tables, NAME, both).run(tables.open(NAME))
    told = [(one["hub.rows"], one["hub.partitions"], json.loads(one["hub.ranges"])) for one in histories(tables)]
    assert told == [("3", "1", {"eu.orders-0": [5, 8]}), ("3", "2", {"eu.orders-0": [8, 21], "eu.orders-1": [0, 1]})]


def test_history_names_the_longest_ranges_alone():
    """A commit of thousands of partitions: every version that is kept would name them all."""
    spans = [Span(CentralPartition("eu.orders", "AAA", n), OffsetRange(0, 1 + (n % 40))) for n in range(200)]
    outcome = StagingOutcome(tuple(SpanProgress(one, one.offsets.end) for one in spans), ())
    told = committable([outcome], {}).note()
    ranges = json.loads(told["hub.ranges"])
    assert (told["hub.rows"], told["hub.partitions"], len(ranges)) == ("0", "200", SHOWN_RANGES)
    assert min(end for _, end in ranges.values()) == 37


@pytest.mark.slow
def test_two_handles_of_one_version_cannot_both_commit(tables):
    """The one that comes second conflicts and has committed nothing, for the same range and for another one."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    ours, same, other = (tables.open(NAME) for _ in range(3))
    outcome = staged(tables, FIRST, 3, 4, ids(4))
    ours.commit(outcome.files, {FIRST: 4})
    with pytest.raises(CommitConflict):
        same.commit(staged(tables, FIRST, 3, 4, ids(4)).files, {FIRST: 4})
    with pytest.raises(CommitConflict):
        other.commit(staged(tables, SECOND, 0, 1, ids(5)).files, {SECOND: 1})
    assert read_ids(tables) == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_move_over_markers_conflicts_like_rows_do(tables):
    """A commit without a file would else set an older position over a newer one."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    stale = tables.open(NAME)
    commit(tables, staged(tables, FIRST, 3, 9, ids(4)))
    with pytest.raises(CommitConflict):
        stale.commit([], {FIRST: 5})
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 9}


@pytest.mark.slow
def test_after_a_conflict_the_overtaken_range_is_dropped_and_another_goes_in(tables):
    """From a fresh read, what the other writer committed drops out and what it did not touch is committed."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    stale = tables.open(NAME)
    commit(tables, staged(tables, FIRST, 3, 4, ids(4)))
    result = Commit(tables, NAME, [staged(tables, FIRST, 3, 4, ids(4)), staged(tables, SECOND, 0, 1, ids(5))]).run(
        stale
    )
    assert len(result.settled.dropped) == 1
    assert result.positions == {FIRST: 4, SECOND: 1}
    assert read_ids(tables) == [1, 2, 3, 4, 5]


@pytest.mark.slow
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
    """The second would replace the columns of the first."""
    barrier, outcome = threading.Barrier(2), []

    def create() -> None:
        barrier.wait()
        try:
            tables.create(NAME, FIXED_COLUMNS)
            outcome.append("created")
        except CommitConflict:
            outcome.append("conflict")

    threads = [threading.Thread(target=create) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome) == ["conflict", "created"]
    assert tables.open(NAME).schema() == FIXED_COLUMNS


@pytest.mark.slow
def test_positions_only_grow(tables):
    """The formats accept a smaller position; the hub does not."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    for offset in (3, 2):
        with pytest.raises(FatalError, match="position"):
            tables.open(NAME).commit([], {FIRST: offset})


def test_a_recreated_topic_has_positions_of_its_own(tables):
    """A position belongs to a topic's id."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    again = CentralPartition(FIRST.topic, "BBB", 0)
    assert tables.open(NAME).positions([again]) == {}


@pytest.mark.slow
def test_two_hubs_in_one_table_have_positions_of_their_own(tables):
    """Positions carry the hub's name."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    other = type(tables)("other", tables.folder)
    commit(other, staged(other, FIRST, 0, 1, ids(4)))
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 3}
    assert other.open(NAME).positions([FIRST]) == {FIRST: 1}
    assert read_ids(tables) == [1, 2, 3, 4]


@pytest.mark.slow
def test_new_columns_are_added_before_the_rows(tables):
    """Wider rows are visible: the columns come in a commit of their own, nested ones too, and older rows have null."""
    small, wide = pa.struct([("x", pa.int32())]), pa.struct([("x", pa.int32()), ("y", pa.string())])
    commit(tables, staged(tables, FIRST, 0, 1, rows(1, n=pa.array([4]), s=pa.array([{"x": 1}], small))))
    wider = rows(1, s=pa.array([{"x": 2, "y": "b"}], wide), n=pa.array([5]), l=pa.array([["p"]]))
    commit(tables, staged(tables, FIRST, 1, 2, wider))
    assert read(tables, "n, s.x, s.y, l") == [(4, 1, None, None), (5, 2, "b", ["p"])]
    assert tables.open(NAME).schema().field("s").type == wide


@pytest.mark.slow
def test_a_widening_conflicts_like_rows_do(tables):
    """Who staged under the columns of before looks at the table again."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    stale, outcome = tables.open(NAME), staged(tables, FIRST, 1, 2, ids(2))
    handle = tables.open(NAME)
    handle.widen(pa.schema([*handle.schema(), ("new", pa.string())]))
    with pytest.raises(CommitConflict):
        stale.commit(outcome.files, {FIRST: 2})


@pytest.mark.slow
def test_rows_that_do_not_fit_are_held_and_others_go_in(tables):
    """A changed type holds its own outcome by name."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    text = rows(1, id=pa.array(["x"]))
    result = commit(tables, staged(tables, FIRST, 1, 2, text), staged(tables, SECOND, 0, 1, ids(2)))
    (held,) = result.held
    assert held.partition == FIRST
    assert "id is int64 in the table and string in the schema" in held.reason
    assert read_ids(tables) == [1, 2]


def test_every_kind_of_column_comes_back_as_it_was_staged(tables):
    """What the format says of its columns is what records are staged in, or every commit would widen again."""
    kinds = {
        "l": pa.list_(pa.struct([("a", pa.list_(pa.int32()))])),
        "m": pa.map_(pa.string(), pa.struct([("v", pa.binary())])),
        "d": pa.date32(),
        "n": pa.decimal128(38, 9),
        "t": pa.timestamp("us", "UTC"),
        "local": pa.timestamp("us"),
        "f": pa.float32(),
        "raw": pa.binary(12),
        "b": pa.bool_(),
    }
    schema = tables.narrowed(pa.schema([*FIXED_COLUMNS, *kinds.items()]))
    tables.create(NAME, schema)
    assert tables.open(NAME).schema() == schema


@pytest.mark.slow
def test_dates_beyond_pythons_years_are_committed(tables):
    """A timestamp in the year 70,000 is a value like any other: it costs its column the bounds, not the table."""
    far = pa.array([1, 2**61], pa.timestamp("us", "UTC"))
    table = rows(2, id=pa.array([1, 2]), at=far, d=pa.array([1, 2**30], pa.date32()))
    commit(tables, staged(tables, FIRST, 0, 2, table))
    assert read_ids(tables) == [1, 2]


@pytest.mark.slow
def test_files_of_a_kept_version_are_no_leftovers(tables):
    """Only old files of the hub's that no version names are swept."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    lost = staged(tables, FIRST, 3, 4, ids(4)).files[0].path
    folder = Path(tables.folder) / NAME
    now_s = (folder / lost).stat().st_mtime
    assert sweep(tables, NAME, now_s=now_s) == []
    assert sweep(tables, NAME, now_s=now_s + 2 * 86_400) == [lost]
    assert read_ids(tables) == [1, 2, 3]


@pytest.mark.slow
def test_a_marker_range_moves_the_position_alone(tables):
    """Offsets without a record are a position without a file."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    outcome = StagingOutcome((SpanProgress(Span(FIRST, OffsetRange(1, 7)), 7),), ())
    Commit(tables, NAME, [outcome], force=True).run(tables.open(NAME))
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 7}
    assert (tables.open(NAME).rows(), read_ids(tables)) == (1, [1])


@pytest.mark.slow
def test_tables_travel_to_executors(tables):
    """A task takes them along, also after they have spoken to their catalogue."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    there = pickle.loads(pickle.dumps(tables))
    assert there.narrowed(FIXED_COLUMNS) == tables.narrowed(FIXED_COLUMNS)
