"""Upkeep beside the commits: few files, every row, and nobody waits."""

import json
import threading
import time
from dataclasses import replace
from datetime import timedelta

import pyarrow as pa
import pytest

from aggregator.config.lake_model import UpkeepConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import RetryError
from aggregator.lake.cycle.attempts import TURN
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.upkeep import background as module
from aggregator.lake.upkeep.background import BackgroundUpkeep
from aggregator.state.lake_upkeep import TableUpkeep
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, read_ids, rows, staged

pytestmark = pytest.mark.slow

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
NOW_S, NOW_MS = 1_800_000_000.0, 1_800_000_000_000
DAY_S = 86_400.0
ONLY_COMPACT = UpkeepConfig(vacuum=False)


def filled(kind, tmp_path, count: int):
    """A table of so many commits of one row each."""
    tables = kind("hub", Folder(str(tmp_path)))
    grow(tables, 0, count)
    return tables


def grow(tables, start: int, end: int) -> None:
    for number in range(start, end):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))


def upkeep(tables, wanted=ONLY_COMPACT, **more) -> BackgroundUpkeep:
    return BackgroundUpkeep(wanted, tables, **{"clock": lambda: NOW_S} | more)


@FORMATS
def test_small_files_become_few_without_anybody_asking(kind, tmp_path):
    """Eight of a kind are worth a rewrite, fewer are not; what was done is told once, and summed up."""
    tables = filled(kind, tmp_path, 7)
    keeper = upkeep(tables)
    assert keeper.keep_up(NAME) is None
    grow(tables, 7, 9)
    assert keeper.keep_up(NAME) == TableUpkeep(NOW_MS, 9, 1)
    assert keeper.keep_up(NAME) is None
    grow(tables, 9, 17)
    assert keeper.keep_up(NAME) == TableUpkeep(NOW_MS, 17, 2)
    assert read_ids(tables) == list(range(17))
    assert len(tables.open(NAME).live_paths()) == 2
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 17}


@FORMATS
def test_old_versions_go_once_a_day(kind, tmp_path):
    """A mark from the future, of a clock that was wrong, puts nothing off."""
    tables = filled(kind, tmp_path, 2)
    now_s = NOW_S
    keeper = upkeep(tables, UpkeepConfig(compact=False), clock=lambda: now_s)
    assert replace(keeper.keep_up(NAME), removed=0) == TableUpkeep(vacuumed_ms=NOW_MS)
    now_s += DAY_S - 1
    assert keeper.keep_up(NAME) is None
    now_s += 1
    assert keeper.keep_up(NAME).vacuumed_ms == NOW_MS + 1000 * int(DAY_S)
    now_s = NOW_S
    assert keeper.keep_up(NAME).vacuumed_ms == NOW_MS
    assert read_ids(tables) == [0, 1]


@FORMATS
def test_nothing_is_done_that_is_not_wanted(kind, tmp_path):
    """Each can be switched off."""
    tables = filled(kind, tmp_path, 9)
    assert upkeep(tables, UpkeepConfig(compact=False, vacuum=False)).keep_up(NAME) is None
    assert len(tables.open(NAME).live_paths()) == 9


@FORMATS
def test_a_table_in_trouble_is_told_and_recovers(kind, tmp_path):
    """With what it is; the next one is kept up, and so is this one when the trouble is over."""
    tables = filled(kind, tmp_path, 9)
    hidden = min((tmp_path / NAME).glob("hub-*.parquet"))
    aside = hidden.rename(tmp_path / "aside")
    keeper = upkeep(tables)
    told = keeper.keep_up(NAME)
    assert NAME in told.problem
    assert replace(told, problem="") == TableUpkeep()
    assert keeper.keep_up(NAME) is None
    assert keeper.keep_up("nothing") is None
    aside.rename(hidden)
    assert keeper.keep_up(NAME) == TableUpkeep(NOW_MS, 9, 1)
    assert read_ids(tables) == list(range(9))


def test_whom_a_job_asked_for_a_turn_is_left_alone(tmp_path):
    """A restate that lost to faster writers has it, as the lake's own cycles leave it to it."""
    tables = filled(DeltaTables, tmp_path, 9)
    turn = tmp_path / NAME / TURN
    turn.write_bytes(b"a word")
    keeper = upkeep(tables)
    assert keeper.keep_up(NAME) is None
    assert len(tables.open(NAME).live_paths()) == 9
    turn.unlink()
    assert keeper.keep_up(NAME) == TableUpkeep(NOW_MS, 9, 1)


def test_commits_come_first():
    """Nothing is due while the lake is behind; what does not answer is left to the lake."""
    at = CentralPartition("eu.orders", "id", 0)
    keeper = upkeep(DeltaTables("hub", Folder("nowhere")))
    assert keeper.due() == []
    done = TableReport("orders", rows=5, next_offsets={at: 5}, end_offsets={at: 5})
    away = TableReport("payments", failed=RetryError("its store is away", hint="wait"))
    keeper.take(CycleReport((done, away)))
    assert keeper.due() == ["orders", "orders__quarantine", "orders__current"]
    keeper.take(CycleReport((replace(done, end_offsets={at: 9}),)))
    assert keeper.due() == []


@pytest.mark.slow
@FORMATS
def test_a_table_is_kept_up_beside_a_writer_that_goes_on(kind, tmp_path, monkeypatch):
    """Every row is there once, every position stands, and what an earlier process did is counted on."""
    monkeypatch.setattr(module, "_EVERY_S", 0.0)
    monkeypatch.setattr(module, "_SHARE", 2)
    tables = filled(kind, tmp_path, 8)
    told, stop, pulses = [], threading.Event(), []
    keeper = upkeep(
        kind("hub", Folder(str(tmp_path))),
        UpkeepConfig(keep=timedelta(hours=1)),
        publish=lambda name, done: told.append((name, done)),
        known=lambda: {NAME: TableUpkeep(5, 100, 10, 5, 1)},
        clock=time.time,
    )
    keeper.take(CycleReport((TableReport(NAME),)))
    beside = threading.Thread(target=keeper.run, args=(stop, lambda: pulses.append(1)))
    beside.start()
    for start in range(8, 24, 8):
        before, deadline = len(told), time.monotonic() + 20
        grow(tables, start, start + 8)
        while len(told) == before and time.monotonic() < deadline:
            time.sleep(0.01)
    stop.set()
    beside.join(30)
    assert not beside.is_alive()
    assert read_ids(tables) == list(range(24))
    assert tables.open(NAME).positions([FIRST]) == {FIRST: 24}
    assert pulses
    assert {name for name, _ in told} == {NAME}
    rewritten = [done.rewritten for _, done in told]
    assert rewritten == sorted(rewritten)
    assert rewritten[-1] >= 108
    assert len(tables.open(NAME).live_paths()) <= 24 - (rewritten[-1] - 100) + told[-1][1].written - 10
    assert not [done.problem for _, done in told if done.problem]


def test_upkeep_takes_a_tenth_of_the_time(monkeypatch):
    """After a second of work it rests for nine, and a stop ends the rest."""
    rests = []
    monkeypatch.setattr(module, "_EVERY_S", 0.25)
    monkeypatch.setattr(module, "_rest", lambda _stop, _pulse, seconds: rests.append(seconds))
    keeper = upkeep(DeltaTables("hub", Folder("nowhere")))
    monkeypatch.setattr(keeper, "due", lambda: ["orders", "payments"])
    clock = iter([0.0, 0.0, 1.0, 10.0, 12.0, 30.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    stop = threading.Event()
    monkeypatch.setattr(keeper, "_warn", lambda _names: stop.set())
    monkeypatch.setattr(keeper, "keep_up", lambda _name: None)
    keeper.run(stop)
    assert rests == [0.25, 9.0, 18.0, 0.25 - 30.0]


def nested(number: int) -> pa.Table:
    return rows(1, id=pa.array([number]), s=pa.array([{"a": number}]))


@pytest.mark.parametrize("old", ["id", ("s", "a")], ids=["a column", "a field of a record"])
def test_a_renamed_column_of_iceberg_is_not_rewritten(tmp_path, old):
    """Files have the earlier name: a reader of the files alone finds nothing under the present one."""
    tables = IcebergTables("hub", Folder(str(tmp_path)))
    for number in range(9):
        commit(tables, staged(tables, FIRST, number, number + 1, nested(number)))
    with tables.open(NAME).table.update_schema() as change:
        change.rename_column(old, "renamed")
    before = tables.open(NAME).table.scan().to_arrow().to_pylist()
    told = upkeep(tables, UpkeepConfig()).keep_up(NAME)
    assert f"renamed {old if isinstance(old, str) else old[-1]} to renamed" in told.problem
    assert "next: send the topic to another table (`lake:`)" in told.problem
    assert told.vacuumed_ms == NOW_MS, "what keeps it from being compacted keeps it from nothing else"
    assert tables.open(NAME).table.scan().to_arrow().to_pylist() == before
    assert len(tables.open(NAME).live_paths()) == 9
    with tables.open(NAME).table.update_schema() as change:
        change.rename_column("renamed" if old == "id" else ("s", "renamed"), old if old == "id" else "a")
    assert "keeps both names there" in upkeep(tables).keep_up(NAME).problem, "files of either name may be there"


def test_a_delta_table_whose_columns_are_mapped_is_not_rewritten(tmp_path):
    """Its files have other names than the table, by Delta's protocol (Column Mapping)."""
    tables = filled(DeltaTables, tmp_path, 9)
    log = tmp_path / NAME / "_delta_log"
    newest = max(log.glob("*.json"))
    meta = json.loads(next(line for path in sorted(log.glob("*.json")) for line in path.read_text().splitlines()
                           if "metaData" in line))  # fmt: skip
    fields = json.loads(meta["metaData"]["schemaString"])
    for number, one in enumerate(fields["fields"], 1):
        one["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": one["name"]}
        one["name"] = one["name"].replace("id", "renamed")
    meta["metaData"]["schemaString"] = json.dumps(fields)
    meta["metaData"]["configuration"] |= {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "12"}
    protocol = {"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}
    next_one = log / f"{int(newest.stem) + 1:020}.json"
    next_one.write_text("\n".join(map(json.dumps, (protocol, meta))) + "\n")
    told = upkeep(tables).keep_up(NAME)
    assert "its columns have other names than those in its files" in told.problem
    assert len(tables.open(NAME).live_paths()) == 9


def test_files_that_are_divided_in_an_earlier_way_are_not_rewritten(tmp_path):
    """Their parts are not those of the table's present division."""
    tables = filled(IcebergTables, tmp_path, 9)
    with tables.open(NAME).table.update_spec() as change:
        change.add_identity("_edge")
    told = upkeep(tables).keep_up(NAME)
    assert "its partitioning was changed" in told.problem
    assert "next: let the tool that changed it rewrite them" in told.problem


@FORMATS
@pytest.mark.parametrize("left", [0, 100], ids=["empty", "cut off"])
def test_a_damaged_file_is_told_and_hides_no_other_table(kind, tmp_path, left):
    """And when it is whole again, the table is kept up again; its counts are those of all its upkeep."""
    tables = filled(kind, tmp_path, 9)
    damaged = min((tmp_path / NAME).glob("hub-*.parquet"))
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:left])
    keeper = upkeep(tables, UpkeepConfig())
    told = keeper.keep_up(NAME)
    assert NAME in told.problem
    assert (told.rewritten, told.vacuumed_ms) == (0, NOW_MS)
    damaged.write_bytes(whole)
    again = keeper.keep_up(NAME)
    assert (again.problem, again.rewritten, again.written) == ("", 9, 1)
    assert read_ids(tables) == list(range(9))


def test_damaged_metadata_are_told_whatever_they_raise(tmp_path):
    """Pyiceberg has no word of its own for an empty manifest."""
    tables = filled(IcebergTables, tmp_path, 9)
    for manifest in (tmp_path / NAME / "metadata").glob("*-m0.avro"):
        manifest.write_bytes(b"")
    told = upkeep(tables).keep_up(NAME)
    assert told.problem.startswith(f"table {NAME}: ")


def test_files_without_counts_are_compacted_by_their_own(tmp_path):
    """Another tool may write Delta's log without statistics."""
    tables = filled(DeltaTables, tmp_path, 9)
    log = tmp_path / NAME / "_delta_log"
    for path in log.glob("*.json"):
        actions = [json.loads(line) for line in path.read_text().splitlines()]
        for action in actions:
            action.get("add", {}).pop("stats", None)
        path.write_text("\n".join(map(json.dumps, actions)) + "\n")
    assert upkeep(tables).keep_up(NAME) == TableUpkeep(NOW_MS, 9, 1)
    assert read_ids(tables) == list(range(9))


def test_a_problem_is_logged_once_and_of_the_lakes_own_tables_alone(tmp_path, monkeypatch, caplog):
    """What somebody else wrote about a table is nothing to warn of."""
    tables = filled(DeltaTables, tmp_path, 9)
    min((tmp_path / NAME).glob("hub-*.parquet")).write_bytes(b"")
    keeper = upkeep(tables, known=lambda: {"forged": TableUpkeep(problem="pay here")})
    keeper.take(CycleReport((TableReport(NAME),)))
    stop = threading.Event()
    rounds = []
    monkeypatch.setattr(module, "_rest", lambda *_: rounds.append(1) or (len(rounds) > 12 and stop.set()))
    keeper.run(stop)
    assert caplog.text.count(f"table {NAME} is not kept up") == 1
    assert "pay here" not in caplog.text
