"""Division, compaction and vacuum on both formats: the same rows, every position, and the hub goes on committing."""

import os
import threading
import time
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import HoldError
from aggregator.lake.columns.columns import FIXED_COLUMNS
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict, LiveFile
from aggregator.lake.upkeep.compaction import RATIO, Compacted, bins, compact
from aggregator.lake.upkeep.orphans import sweep
from tests.unit.lake.tabling import FIRST, NAME, SECOND, commit, ids, read, read_ids, rows, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
WEEK = timedelta(days=7)


def small_files(tables, count: int) -> None:
    """So many commits of one row each."""
    for number in range(count):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))


@given(
    st.lists(
        st.builds(
            lambda at, size, rows, part, begins_us: LiveFile(f"hub-{at}", size, rows, (("p", part),), begins_us),
            st.uuids(),
            st.integers(1, 200),
            st.integers(0, 5000),
            st.sampled_from(["a", "b"]),
            st.none() | st.integers(-9, 9),
        )
    ),
    st.integers(1, 200),
    st.integers(2, RATIO),
)
def test_bins_hold_small_files_of_one_part(live, target, fewest):
    """Every group is worth a rewrite, within the bound, of one part and tier; no file is in two; large ones stay."""
    groups = bins(live, target_bytes=target, fewest=fewest)
    grouped = [file for group in groups for file in group]
    assert len(grouped) == len(set(grouped))
    assert all(one.size * 4 <= target * 3 for one in grouped)
    for group in groups:
        size, rows = sum(one.size for one in group), [one.rows for one in group]
        assert len(group) >= fewest or (len(group) > 1 and size * 4 > target * 3)
        assert size <= target
        assert len({one.partition for one in group}) == 1
        assert len({len(oct(count)) for count in rows}) == 1
        times = [one.begins_us for one in group if one.begins_us is not None]
        assert times == sorted(times)
        alike = [
            one for one in grouped if one.partition == group[0].partition and len(oct(one.rows)) == len(oct(rows[0]))
        ]
        between = [one for one in alike if one.begins_us is not None and times and times[0] < one.begins_us < times[-1]]
        assert all(one in group for one in between)


@pytest.mark.parametrize("rows", [1, 7, 8, 1000])
def test_a_record_is_rewritten_at_most_once_a_tier(rows):
    """However long commits go on and upkeep runs after each of them: 16 records a kilobyte, files of one megabyte."""
    live, rewritten, most = [], {}, 0
    for number in range(1000):
        live.append(LiveFile(f"hub-{number}", 1 + rows // 16, rows, (), number))
        while groups := bins(live, target_bytes=65_536, fewest=RATIO):
            group = groups[0]
            made = LiveFile(f"{group[0].path}+", *map(sum, zip(*((one.size, one.rows) for one in group), strict=True)))
            rewritten[made.path] = 1 + max(rewritten.get(one.path, 0) for one in group)
            most = max(most, rewritten[made.path])
            live = [one for one in live if one not in group] + [made._replace(begins_us=group[0].begins_us)]
    assert sum(one.rows for one in live) == 1000 * rows
    tiers = len(
        {RATIO**tier for tier in range(20) if rows <= RATIO**tier * RATIO <= max(one.rows for one in live) * RATIO}
    )
    assert 1 <= most <= tiers
    assert len(live) <= RATIO * tiers + 1000 * rows // 65_536


def test_files_of_another_tool_are_left_to_it():
    """The hub knows what its own files hold: every column, also those that the table is divided by."""
    assert bins([LiveFile("part-1.parquet", 1, 1), LiveFile("part-2.parquet", 1, 1)], target_bytes=100) == []


@FORMATS
@pytest.mark.slow
def test_small_files_become_one(kind, tmp_path):
    """The same rows and the same positions, in fewer files, under the columns of today."""
    tables = kind("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    commit(tables, staged(tables, SECOND, 0, 1, rows(1, id=pa.array([3]), s=pa.array([{"x": [1]}]))))
    before = tables.open(NAME)
    assert compact(tables, tables.folder / NAME, NAME) == Compacted(4, 1)
    after = tables.open(NAME)
    assert read(tables, "id, s") == [(0, None), (1, None), (2, None), (3, {"x": [1]})]
    assert len(after.live_paths()) == 1
    assert (after.rows(), after.schema()) == (4, before.schema())
    assert after.positions([FIRST, SECOND]) == {FIRST: 3, SECOND: 1}
    assert compact(tables, tables.folder / NAME, NAME) == Compacted()
    commit(tables, staged(tables, FIRST, 3, 4, ids(9)))
    assert read_ids(tables) == [0, 1, 2, 3, 9]


@pytest.mark.slow
@FORMATS
def test_compaction_and_commits_beside_each_other_lose_nothing(kind, tmp_path):
    """Both go on from a fresh read after a conflict; every row is there once."""
    tables = kind("hub", Folder(str(tmp_path)))
    small_files(tables, 2)
    done = threading.Event()

    def rewrite() -> None:
        while not done.is_set():
            with suppress(CommitConflict):  # the writer here never rests
                compact(tables, tables.folder / NAME, NAME)

    beside = threading.Thread(target=rewrite)
    beside.start()
    for number in range(2, 14):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    done.set()
    beside.join()
    compact(tables, tables.folder / NAME, NAME)
    assert read_ids(tables) == list(range(14))
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 14}
    assert len(tables.open(NAME).live_paths()) <= 2  # one a tier, of files of less than eight records and of more


@FORMATS
@pytest.mark.slow
def test_a_rewrite_that_was_overtaken_is_dropped(kind, tmp_path, monkeypatch):
    """Where another compaction replaced a file meanwhile, the rewritten copy never becomes visible."""
    tables, other = kind("hub", Folder(str(tmp_path))), kind("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    opened = kind.open
    calls = []

    def overtaken(self, name):
        calls.append(name)
        if len(calls) == 2:
            with monkeypatch.context() as plain:
                plain.setattr(kind, "open", opened)
                assert compact(other, other.folder / NAME, NAME) == Compacted(3, 1)
        return opened(self, name)

    with monkeypatch.context() as race:
        race.setattr(kind, "open", overtaken)
        assert compact(tables, tables.folder / NAME, NAME) == Compacted()
    assert read_ids(tables) == [0, 1, 2]
    assert len(tables.open(NAME).live_paths()) == 1


@FORMATS
@pytest.mark.slow
def test_of_groups_in_one_commit_only_those_count_that_are_still_whole(kind, tmp_path, monkeypatch):
    """Another compaction was faster with one of them; the other one is committed, and no copy is left behind."""
    tables, other = kind("hub", Folder(str(tmp_path))), kind("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    for number in (3, 4):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(*range(10 * number, 10 * number + 8))))
    opened, calls = kind.open, []

    def overtaken(self, name):
        calls.append(name)
        if len(calls) == 2:
            with monkeypatch.context() as plain:
                plain.setattr(kind, "open", opened)
                assert compact(other, other.folder / NAME, NAME, fewest=3) == Compacted(3, 1)
        return opened(self, name)

    with monkeypatch.context() as race:
        race.setattr(kind, "open", overtaken)
        assert compact(tables, tables.folder / NAME, NAME) == Compacted(2, 1)
    assert read_ids(tables) == [0, 1, 2, *range(30, 38), *range(40, 48)]
    handle = tables.open(NAME)
    assert len(handle.live_paths()) == 2
    written = {path.name for path in (tmp_path / NAME).glob("hub-*.parquet")}
    assert len(written - handle.referenced_paths()) == 0


@FORMATS
@pytest.mark.slow
def test_vacuum_removes_what_only_old_versions_name_and_keeps_positions(kind, tmp_path):
    """Young versions stay readable; the positions outlive every version, checkpoint and snapshot."""
    tables = kind("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    compact(tables, tables.folder / NAME, NAME)
    now_s = datetime.now(UTC).timestamp()
    waiting = staged(tables, FIRST, 3, 4, ids(3))
    files = set(tmp_path.glob("*/hub-*.parquet"))
    assert tables.open(NAME).vacuum(WEEK, now_s=now_s) == 0
    assert set(tmp_path.glob("*/hub-*.parquet")) == files
    assert tables.open(NAME).vacuum(timedelta(0), now_s=now_s + 1) > 2
    assert len(set(tmp_path.glob("*/hub-*.parquet"))) == 2
    assert read_ids(tables) == [0, 1, 2]
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 3}
    commit(tables, waiting)
    assert read_ids(tables) == [0, 1, 2, 3]


@FORMATS
@pytest.mark.slow
def test_vacuum_leaves_an_old_version_that_was_replaced_just_now(kind, tmp_path):
    """A query that began before its replacement is served for as long as was asked."""
    tables, keep = kind("hub", Folder(str(tmp_path))), timedelta(hours=1)
    small_files(tables, 3)
    time.sleep(0.3)
    now_s = time.time() + keep.total_seconds()
    compact(tables, tables.folder / NAME, NAME)
    tables.open(NAME).vacuum(keep, now_s=now_s)
    assert len(set(tmp_path.glob("*/hub-*.parquet"))) == 4
    tables.open(NAME).vacuum(timedelta(0), now_s=now_s)
    assert len(set(tmp_path.glob("*/hub-*.parquet"))) == 1


def test_delta_positions_outlive_checkpoints_and_the_log_before_them(tmp_path):
    """A position that the log alone knew would be lost when a checkpoint stands for it."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    commit(tables, staged(tables, SECOND, 0, 7, ids(3)))
    log = tmp_path / NAME / "_delta_log"
    DeltaTable(tmp_path / NAME).create_checkpoint()
    for path in sorted(log.glob("*.json"))[:-1]:
        path.unlink()
    assert tables.open(NAME).positions([FIRST, SECOND]) == {FIRST: 3, SECOND: 7}
    commit(tables, staged(tables, FIRST, 3, 4, ids(4)))
    assert read_ids(tables) == [0, 1, 2, 3, 4]


def test_delta_files_that_a_kept_version_names_are_no_leftovers(tmp_path):
    """What a compaction replaced stays for readers of older versions, however old the file is."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 2)
    compact(tables, tables.folder / NAME, NAME)
    for path in tmp_path.glob("*/hub-*.parquet"):
        os.utime(path, (0, 0))
    assert sweep(tables, NAME, now_s=datetime.now(UTC).timestamp()) == []


@FORMATS
@pytest.mark.slow
def test_a_table_divided_by_columns_and_by_day(kind, tmp_path):
    """Each part has files of its own, null is a part, and the columns are in the files too."""
    tables = kind("hub", Folder(str(tmp_path)), {NAME: ("_edge", "_day", "paid")})
    times = [
        datetime(2026, 1, 1, 23, 59, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
        datetime(2026, 1, 2, tzinfo=UTC),
    ]
    columns = {
        "_timestamp": pa.array(times, pa.timestamp("us", "UTC")),
        "_edge": pa.array(["eu", "eu", None]),
        "paid": pa.array([True, False, False]),
        "id": pa.array([1, 2, 3]),
    }
    commit(tables, staged(tables, FIRST, 0, 3, rows(3, **columns)))
    commit(tables, staged(tables, FIRST, 3, 6, rows(3, **columns)))
    handle = tables.open(NAME)
    assert handle.partition_columns() == ("_edge", "_day", "paid")
    assert len(handle.live_files()) == 6
    assert len({file.partition for file in handle.live_files()}) == 3
    assert compact(tables, tables.folder / NAME, NAME) == Compacted(6, 3)
    first, second = date(2026, 1, 1), date(2026, 1, 2)
    expected = [(1, "eu", first, True), (2, "eu", second, False), (3, None, second, False)]
    assert read(tables, "distinct id, _edge, _day, paid") == expected
    if kind is DeltaTables:
        found = DeltaTable(tmp_path / NAME).to_pyarrow_table(filters=[("_edge", "=", "eu")])
        assert sorted(found.column("id").to_pylist()) == [1, 1, 2, 2]
    else:
        tasks = tables.open(NAME).table.scan("_edge = 'eu' and _day = '2026-01-02'").plan_files()
        assert [task.file.record_count for task in tasks] == [2]


@FORMATS
@pytest.mark.slow
def test_files_that_are_divided_in_another_way_are_refused(kind, tmp_path):
    """Whoever created the table decided; the next cycle stages as it is."""
    plain, divided = kind("hub", Folder(str(tmp_path))), kind("hub", Folder(str(tmp_path)), {NAME: ("_edge",)})
    commit(plain, staged(plain, FIRST, 0, 1, ids(1)))
    with pytest.raises(HoldError, match="divided by nothing"):
        commit(divided, staged(divided, FIRST, 1, 2, ids(2)))


@FORMATS
@pytest.mark.parametrize("column", ["nowhere", "_key", "_timestamp"])
def test_a_table_is_not_divided_by_what_it_lacks_or_cannot_name(kind, tmp_path, column):
    """A column that no record has, or whose values have no plain text, is refused by name."""
    tables = kind("hub", Folder(str(tmp_path)), {NAME: (column,)})
    with pytest.raises(HoldError, match=f"partition_by` names {column}"):
        tables.create(NAME, ids(1).schema)
    assert tables.open(NAME) is None


def test_a_field_that_is_called_like_the_day_is_refused(tmp_path):
    """It would divide the table by something else."""
    tables = DeltaTables("hub", Folder(str(tmp_path)), {NAME: ("_day",)})
    with pytest.raises(HoldError, match="_day"):
        staged(tables, FIRST, 0, 1, rows(1, _day=pa.array(["monday"])))


def test_a_restored_delta_table_is_held(tmp_path):
    """Its positions would say that rows are there which are not; restoring the newest version again heals it."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    newest = tables.open(NAME).version
    DeltaTable(tmp_path / NAME).restore(newest - 1)
    with pytest.raises(HoldError, match="was restored"):
        tables.open(NAME)
    DeltaTable(tmp_path / NAME).restore(newest)
    assert read_ids(tables) == [0, 1, 2]


def test_what_others_write_hides_no_restored_version(tmp_path):
    """A user's own rows on top of the restored version say nothing of the hub's."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 3)
    newest = tables.open(NAME).version
    DeltaTable(tmp_path / NAME).restore(newest - 1)
    write_deltalake(tmp_path / NAME, ids(7), mode="append")
    with pytest.raises(HoldError, match=f"restore version {newest}"):
        tables.open(NAME)
    DeltaTable(tmp_path / NAME).restore(newest)
    assert read_ids(tables) == [0, 1, 2]


def test_a_delta_table_that_was_restored_by_time_is_held(tmp_path):
    """Spark writes a version of null then; which one it was is not asked."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 2)
    newest = tables.open(NAME).version
    DeltaTable(tmp_path / NAME).restore(newest - 1)
    entry = tmp_path / NAME / "_delta_log" / f"{newest + 1:020}.json"
    text = entry.read_text()
    told = f'"version":"{newest - 1}"' if f'"version":"{newest - 1}"' in text else f'"version":{newest - 1}'
    assert told in text
    entry.write_text(text.replace(told, '"version":null,"timestamp":"2026-01-01 00:00:00"'))
    with pytest.raises(HoldError, match=f"restore version {newest}"):
        tables.open(NAME)


def test_a_delta_table_whose_positions_expire_is_held(tmp_path):
    """Set by hand, the property would bring every record again."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    small_files(tables, 1)
    DeltaTable(tmp_path / NAME).alter.set_table_properties(
        {"delta.setTransactionRetentionDuration": "interval 1 days"}, raise_if_not_exists=False
    )
    with pytest.raises(HoldError, match="expire"):
        tables.open(NAME)


@FORMATS
def test_every_table_is_listed(kind, tmp_path):
    """Without Kafka: upkeep runs where no broker is."""
    tables = kind("hub", Folder(str(tmp_path / "lake")))
    assert tables.names() == []
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    assert tables.names() == [NAME]
    assert Path(tmp_path / "lake" / NAME).is_dir()


@FORMATS
def test_a_file_tells_when_its_records_begin(kind, tmp_path):
    """By its statistics, which are of milliseconds in Delta; null where it has no time at all."""
    tables = kind("hub", Folder(str(tmp_path)))
    moments = [datetime(2026, 11, 27, 1, 2, 3, 456789, UTC), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]
    stamps = FIXED_COLUMNS.field("_timestamp").type
    for number, moment in enumerate([*moments, None]):
        times = pa.array([moment, moment and moment + WEEK], stamps)
        table = ids(number, number)
        table = table.set_column(table.column_names.index("_timestamp"), "_timestamp", times)
        commit(tables, staged(tables, FIRST, number, number + 1, table))
    begins = {None if file.begins_us is None else file.begins_us // 1000 for file in tables.open(NAME).live_files()}
    assert begins == {1_795_741_323_456, -1, None}
