"""What Iceberg adds to rule G: properties, field ids by name, promotions, catalogues, and tables altered by hand."""

import json
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitStateUnknownException, ServiceUnavailableError
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV2
from pyiceberg.table.refs import SnapshotRef
from pyiceberg.table.snapshots import Operation, Snapshot, SnapshotLogEntry, Summary

from aggregator.config.lake_model import CatalogConfig
from aggregator.errors import ConfigError, HoldError
from aggregator.lake.cycle.commit import Commit
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.iceberg_snapshots import replaced_before, surplus
from aggregator.lake.tables.port import TableUnavailable
from tests.unit.lake.tabling import FIRST, NAME, SECOND, commit, ids, read, read_ids, rows, staged


@pytest.fixture
def tables(tmp_path) -> IcebergTables:
    return IcebergTables("hub", Folder(str(tmp_path)))


def by_hand(tables: IcebergTables) -> Table:
    """The table as another tool opens it."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{tables.folder / 'catalog.db'}")
    return catalog.load_table(("lake", NAME))


@pytest.mark.parametrize(
    ("address", "options"),
    [
        ("http://c.invalid", {"token": "env:T"}),
        ("http://hub:word@c.invalid", {}),
        ("HTTP://c.invalid", {"credential": "env:T"}),
    ],
)
def test_an_address_by_reference_opens_no_connection(tmp_path, monkeypatch, address, options):
    """What stands behind it is known only when a catalogue is connected to; nothing is sent then."""
    monkeypatch.setenv("WHERE", address)
    monkeypatch.setenv("T", "a-token-of-the-test")
    catalog = CatalogConfig.model_validate({"options": {"type": "rest", "uri": "env:WHERE"} | options})
    with pytest.raises(
        ConfigError, match=r"lake\.catalog\.options\.uri sends the catalogue's credential in clear"
    ) as told:
        IcebergTables("hub", Folder(str(tmp_path)), catalog=catalog).names()
    assert "word" not in str(told.value)
    assert "c.invalid" not in str(told.value)


@pytest.mark.slow
def test_positions_are_properties_of_the_same_commit(tables):
    """Every Iceberg reader can tell how far a table is; each commit is one metadata version and one snapshot."""
    commit(tables, staged(tables, FIRST, 0, 3, ids(1, 2, 3)))
    before = by_hand(tables)
    commit(tables, staged(tables, FIRST, 3, 4, ids(4)))
    after = by_hand(tables)
    assert after.properties[f"hub/{NAME}/eu.orders@AAA-0"] == "4"
    assert len(after.metadata.metadata_log) == len(before.metadata.metadata_log) + 1
    assert len(after.metadata.snapshots) == len(before.metadata.snapshots) + 1


@pytest.mark.slow
def test_staged_files_are_read_by_name(tables):
    """Parquet files carry no field ids: pyiceberg reads them by the name mapping, also after columns were added."""
    commit(tables, staged(tables, FIRST, 0, 1, rows(1, s=pa.array([{"x": 1}]))))
    commit(tables, staged(tables, FIRST, 1, 2, rows(1, m=pa.array([2]), s=pa.array([{"x": 2, "y": [7]}]))))
    found = by_hand(tables).scan(selected_fields=("m", "s")).to_arrow().sort_by("m").to_pylist()
    assert found == [{"s": {"x": 2, "y": [7]}, "m": 2}, {"s": {"x": 1, "y": None}, "m": None}]


def test_files_carry_column_statistics(tables):
    """A reader prunes by the bounds in the manifest."""
    commit(tables, staged(tables, FIRST, 0, 2, ids(1, 5)), staged(tables, SECOND, 0, 1, ids(9)))
    assert len(list(by_hand(tables).scan("id > 6").plan_files())) == 1


@pytest.mark.slow
def test_types_are_promoted_in_place(tables):
    """Int to long, float to double, more digits: also for files that were staged under the narrower type."""
    narrow = rows(
        1, i=pa.array([1], pa.int32()), f=pa.array([0.5], pa.float32()), n=pa.array([None], pa.decimal128(5, 2))
    )
    wide = rows(1, i=pa.array([2**40]), f=pa.array([0.1]), n=pa.array([None], pa.decimal128(9, 2)))
    commit(tables, staged(tables, FIRST, 0, 1, narrow))
    late = staged(tables, SECOND, 0, 1, narrow)
    commit(tables, staged(tables, FIRST, 1, 2, wide))
    commit(tables, late)
    schema = tables.open(NAME).schema()
    assert [schema.field(name).type for name in "ifn"] == [pa.int64(), pa.float64(), pa.decimal128(9, 2)]
    assert read(tables, "i, f") == [(1, 0.5), (1, 0.5), (2**40, 0.1)]
    assert sorted(by_hand(tables).scan().to_arrow()["i"].to_pylist()) == [1, 1, 2**40]


@pytest.mark.parametrize("again", [False, True], ids=["found", "away"])
@pytest.mark.slow
def test_a_lost_answer_is_no_conflict(tables, monkeypatch, again):
    """The commit is found by its mark; while the catalogue is away, nothing is removed or repeated before it is."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    outcome, handle = staged(tables, FIRST, 1, 2, ids(2)), tables.open(NAME)
    version = handle.version
    catalog = type(handle.table.catalog)
    real = catalog.commit_table

    def lost(*args, **kwargs):
        real(*args, **kwargs)
        if again:
            cut.setattr(catalog, "load_table", away)
        raise CommitStateUnknownException

    def away(*_):
        raise ServiceUnavailableError

    with monkeypatch.context() as cut:
        cut.setattr(catalog, "commit_table", lost)
        with pytest.raises(TableUnavailable) if again else nullcontext():
            assert Commit(tables, NAME, [outcome]).run(handle).version == version + 1
    assert commit(tables, outcome).version is None
    assert read_ids(tables) == [1, 2]


@pytest.mark.slow
def test_a_table_that_was_rolled_back_is_held(tables):
    """Its positions would say that rows are there which are not."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    older = by_hand(tables).current_snapshot().snapshot_id
    commit(tables, staged(tables, FIRST, 1, 2, ids(2)))
    newer = by_hand(tables).current_snapshot().snapshot_id
    by_hand(tables).manage_snapshots().rollback_to_snapshot(older).commit()
    with pytest.raises(HoldError, match="rolled back"):
        tables.open(NAME)
    by_hand(tables).manage_snapshots().set_current_snapshot(newer).commit()
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 2}


@pytest.mark.slow
def test_a_table_without_its_positions_is_held(tables):
    """Without them every record would come twice."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    with by_hand(tables).transaction() as change:
        change.remove_properties(*(name for name in change.table_metadata.properties if name.startswith("hub/")))
    with pytest.raises(HoldError, match="positions were removed"):
        tables.open(NAME)


def test_a_table_with_retries_is_held(tables):
    """Left on, pyiceberg would put a commit behind whatever came first."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    with by_hand(tables).transaction() as change:
        change.set_properties({"commit.retry.num-retries": "4"})
    with pytest.raises(HoldError, match="num-retries"):
        tables.open(NAME)


@pytest.mark.slow
def test_a_column_dropped_by_hand_comes_back(tables):
    """The next record that has it adds it again; files that hold it show their values again, by name."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    with by_hand(tables).update_schema(allow_incompatible_changes=True) as change:
        change.delete_column("id")
    commit(tables, staged(tables, FIRST, 1, 2, ids(2)))
    assert sorted(by_hand(tables).scan().to_arrow()["id"].to_pylist()) == [1, 2]


def test_a_lost_catalogue_is_no_empty_lake(tables):
    """A table whose folder has versions that the catalogue does not know is not begun again."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    other = IcebergTables("hub", tables.folder, catalog=CatalogConfig(name="another"))
    assert other.open(NAME) is None
    with pytest.raises(HoldError, match="does not know it"):
        commit(other, staged(other, FIRST, 0, 1, ids(1)))


def test_damaged_metadata_is_held_by_name(tables):
    """A metadata file that nobody can read holds the table and quotes nothing."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    place = Path(by_hand(tables).metadata_location.removeprefix("file://"))
    place.write_text(json.dumps({"format-version": 2}))
    with pytest.raises(HoldError, match=NAME):
        tables.open(NAME)
    place.unlink()
    with pytest.raises(TableUnavailable, match=NAME):
        tables.open(NAME)


def test_a_catalogue_that_is_away_is_waited_for(tmp_path):
    """A named error that asks for another try; the address and its password stay out of it."""
    rest = CatalogConfig(options={"type": "rest", "uri": "http://127.0.0.1:9/catalog"})
    with pytest.raises(TableUnavailable, match="does not answer") as told:
        IcebergTables("hub", Folder(str(tmp_path)), catalog=rest).open(NAME)
    assert "127.0.0.1" not in str(told.value)
    sql = CatalogConfig(options={"type": "sql", "uri": f"sqlite:///{tmp_path}/none/catalog.db"})
    with pytest.raises(TableUnavailable):
        IcebergTables("hub", Folder(str(tmp_path)), catalog=sql).open(NAME)


def test_options_that_make_no_catalogue_are_a_fault_of_the_configuration(tmp_path):
    """Told as such, without the values."""
    for options in ({"type": "nonsense"}, {"type": "sql"}):
        with pytest.raises(ConfigError, match="catalogue"):
            IcebergTables("hub", Folder(str(tmp_path)), catalog=CatalogConfig(options=options)).open(NAME)


def test_looking_makes_no_catalogue(tmp_path):
    """`status` and `plan` write nothing."""
    assert IcebergTables("hub", Folder(str(tmp_path / "lake"))).open(NAME) is None
    assert not (tmp_path / "lake").exists()


HOUR_MS = 3_600_000
KEEPS = "history.expire.min-snapshots-to-keep"


MINUTE_MS = 60_000


def snapshot(number: int, at_ms: int = 0, parent: int | None = None) -> Snapshot:
    """A snapshot upon the one before, or another one, made at that time after 1970."""
    return Snapshot.model_validate({
        "snapshot_id": number, "parent_snapshot_id": parent or number - 1 or None, "sequence_number": number,
        "timestamp_ms": at_ms, "manifest_list": "there", "summary": Summary(Operation.APPEND),
    })  # fmt: skip


def metadata(made, log=(), *, refs=(), properties=None) -> TableMetadataV2:
    """Of a table with these snapshots; `log`: when which of them became current."""
    return TableMetadataV2.model_construct(
        snapshots=list(made),
        snapshot_log=[
            SnapshotLogEntry.model_validate({"snapshot-id": one, "timestamp-ms": at_ms}) for at_ms, one in log
        ],
        refs={f"ref{one}": SnapshotRef.model_validate({"snapshot-id": one, "type": "branch"}) for one in refs},
        properties=properties or {},
    )


@pytest.mark.parametrize(
    ("protected", "properties", "gone"),
    [
        (set(), {}, []),
        (set(), {KEEPS: "7"}, [1]),
        (set(), {KEEPS: "3"}, [1, 2]),
        ({1}, {KEEPS: "3"}, [2, 3]),
        (set(), {KEEPS: "0"}, [1, 2]),
    ],
)
def test_which_snapshots_a_commit_forgets(protected, properties, gone):
    """The oldest beyond the kept ones, two at a time; none that is named."""
    made = [snapshot(n) for n in range(8, 0, -1)]
    assert surplus(metadata(made, refs=protected, properties=properties), now_ms=3 * HOUR_MS) == gone


@pytest.mark.parametrize("every_ms", [1000, MINUTE_MS, 9 * MINUTE_MS, 40 * MINUTE_MS, 3 * HOUR_MS])
def test_whatever_was_current_in_the_last_hour_has_one_shortly_before_it_that_stays(every_ms):
    """So a query that began then reads old files that are replaced meanwhile; there are a bounded number of them."""
    made: list[Snapshot] = []
    for number in range(1, max(100, 2 * HOUR_MS // every_ms)):
        now_ms = number * every_ms
        made.append(snapshot(number, now_ms))
        gone = surplus(metadata(made, properties={KEEPS: "3"}), now_ms=now_ms)
        made = [one for one in made if one.snapshot_id not in gone]
        assert len(made) <= 3 + 7 + 2
        for began_ms in range(max(now_ms - HOUR_MS, every_ms), now_ms, max(every_ms, MINUTE_MS)):
            was_current = began_ms // every_ms
            before = max((one.snapshot_id for one in made if one.snapshot_id <= was_current), default=None)
            if before is None:  # the first ten minutes of a table
                assert made[0].timestamp_ms < 11 * MINUTE_MS
            else:
                assert (was_current - before) * every_ms <= 10 * MINUTE_MS + every_ms


def test_a_version_is_old_when_it_was_replaced_long_ago_not_when_it_was_made():
    """A query that began shortly before its replacement reads it."""
    made = [snapshot(2, 20), snapshot(1, 10), snapshot(3, 30)]
    log = [(10, 1), (20, 2), (30, 3)]
    for told in (log, log[2:], ()):  # a catalogue may cut its log
        found = [sorted(replaced_before(metadata(made, told), at_ms)) for at_ms in (20, 21, 30, 31, 99)]
        assert found == [[], [1], [1], [1, 2], [1, 2]]


def test_a_branch_and_a_rollback_replace_nothing_that_readers_of_the_table_see():
    """The log says what was current when: 1 until 90, whatever was made upon it; 4 is a rollback's, 2 the branch's."""
    made = [snapshot(1, 10), snapshot(2, 20), snapshot(3, 30), snapshot(4, 90, parent=1)]
    branched = metadata(made, [(10, 1), (90, 4)], refs={3})
    assert replaced_before(branched, 60) == [2]
    assert replaced_before(branched, 91) == [1, 2]
    back = metadata(made, [(10, 1), (20, 2), (21, 3), (22, 1), (90, 4)])
    assert replaced_before(back, 60) == [2, 3]
    at_ms = 3 * HOUR_MS
    busy = [snapshot(1, 10), snapshot(2, at_ms - 99 * MINUTE_MS), *(snapshot(n, at_ms - 90 + n) for n in range(3, 9))]
    branch = metadata(busy, [(10, 1), *((at_ms - 90 + n, n) for n in range(3, 9))], refs={8}, properties={KEEPS: "3"})
    assert surplus(branch, now_ms=at_ms) == [2, 3], "1 was current through the hour, and 2 never"


@pytest.mark.slow
@pytest.mark.parametrize("stay", ["many", "-1", "1.5", ""])
def test_a_property_that_is_no_number_of_snapshots_holds_the_table(tables, stay):
    """By its name, before anything is staged; with a number it goes on."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(0)))
    with by_hand(tables).transaction() as change:
        change.set_properties({KEEPS: stay})
    with pytest.raises(HoldError, match=f"{KEEPS} is '{stay}'"):
        tables.open(NAME)
    with by_hand(tables).transaction() as change:
        change.set_properties({KEEPS: "2"})
    commit(tables, staged(tables, FIRST, 1, 2, ids(1)))
    assert read_ids(tables) == [0, 1]


@pytest.mark.slow
def test_a_table_keeps_a_bounded_number_of_snapshots(tables):
    """Every row and position stays, a tag too; the table's own property says how many."""
    commit(tables, staged(tables, FIRST, 0, 1, ids(0)))
    table = by_hand(tables)
    tagged = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(tagged, "first").commit()
    with by_hand(tables).transaction() as change:
        change.set_properties({KEEPS: "3"})
    for number in range(1, 9):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    found = by_hand(tables).metadata
    tenths = {one.timestamp_ms // (10 * MINUTE_MS) for one in found.snapshots}
    kept = 3 + 1 + 1  # the kept ones, the tagged one, and the one that was just made
    assert kept <= len(found.snapshots) < kept + len(tenths)
    assert tagged in {one.snapshot_id for one in found.snapshots}
    assert read_ids(tables) == list(range(9))
    handle = tables.open(NAME)
    handle.check()
    assert handle.positions([FIRST]) == {FIRST: 9}
    assert by_hand(tables).scan(snapshot_id=tagged).to_arrow()["id"].to_pylist() == [0]
