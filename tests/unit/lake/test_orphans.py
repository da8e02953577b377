"""What is deleted in the lake, by whom and when: one module removes files, and never one that a sent commit named."""

import ast
import os
import time
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

import aggregator
from aggregator.errors import HoldError, RetryError
from aggregator.lake.storage import staging as module
from aggregator.lake.storage.files import StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import StagingLease, discard, leased, mark_sent
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict, TableUnavailable
from aggregator.lake.upkeep.orphans import sweep, sweep_scratch
from tests.unit.lake.tabling import FIRST, NAME, commit, ids, read_ids, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
DAY_S = 86_400.0
REMOVALS = {"remove", "delete_file", "unlink", "rmtree", "clear"}
# The owners, at once and by age; the folder itself; a vacuum of what expired; the scratch folder of a restate.
REMOVERS = {
    "lake/storage/staging.py",
    "lake/upkeep/orphans.py",
    "lake/storage/folder.py",
    "lake/tables/iceberg_handle.py",
    "backfill/restate.py",
}


@pytest.mark.slow
def test_two_modules_remove_files_of_the_lake():
    """No other module removes a file of a folder, so that what these never remove stays."""
    root = Path(aggregator.__file__).parent
    found = set()
    for path in [*root.glob("lake/**/*.py"), *root.glob("backfill/*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr in REMOVALS:
                found.add((str(path.relative_to(root)), ast.unparse(called)))
    others = {(path, call) for path, call in found if path not in REMOVERS}
    assert others <= {("lake/storage/files.py", "self._open.clear"), ("lake/cycle/attempts.py", "folder.remove")}


def test_what_a_commit_was_sent_with_is_discarded_by_nobody(tmp_path):
    """Neither by the loop that was refused nor by whoever holds the names; what was never sent goes at once."""
    folder = Folder(str(tmp_path))
    for name in ("sent", "unsent"):
        folder.create(name).close()
    mark_sent(folder, ["sent"])
    discard(folder, ["sent", "unsent", "never was"])
    assert [path.name for path in tmp_path.iterdir()] == ["sent"]


def test_a_storage_that_refuses_a_removal_stops_nobody(tmp_path, monkeypatch):
    """The commit that came before it is done; the sweep comes again."""
    folder = Folder(str(tmp_path))
    folder.create("a").close()

    def refused(*_):
        raise OSError

    with monkeypatch.context() as away:
        away.setattr(Folder, "remove", refused)
        discard(folder, ["a"])
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_memory_of_sent_files_is_bounded(tmp_path, monkeypatch):
    """The oldest are forgotten, whose writers have long returned."""
    monkeypatch.setattr(module, "_SENT", {})
    monkeypatch.setattr(module, "_REMEMBERED", 3)
    mark_sent(Folder(str(tmp_path)), map(str, range(5)))
    assert [path for _, path in module._SENT] == ["2", "3", "4"]


@FORMATS
@pytest.mark.slow
def test_a_dropped_commit_leaves_what_it_sent_to_the_sweep(kind, tmp_path):
    """A writer that another one overtook removes nothing that it sent; a day later nothing of it is left."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    stale, late = tables.open(NAME), staged(tables, FIRST, 1, 2, ids(2))
    commit(tables, staged(tables, FIRST, 1, 2, ids(2)))
    with pytest.raises(CommitConflict):
        stale.commit(late.files, {FIRST: 2})
    assert commit(tables, late).version is None
    now_s = time.time()
    assert sweep(tables, NAME, now_s=now_s) == []
    gone = sweep(tables, NAME, now_s=now_s + 2 * DAY_S)
    assert late.files[0].path in gone
    assert sweep(tables, NAME, now_s=now_s + 2 * DAY_S) == []
    assert read_ids(tables) == [1, 2]
    commit(tables, staged(tables, FIRST, 2, 3, ids(3)))
    assert read_ids(tables) == [1, 2, 3]


@FORMATS
@pytest.mark.slow
def test_a_job_that_ends_while_its_table_is_swept_keeps_what_it_committed(kind, tmp_path, monkeypatch):
    """It commits and ends its lease just before the lease is looked for; then a later version counts."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    folder, now_s, entries = tables.folder / NAME, time.time(), Folder.entries
    lease = StagingLease(folder)
    lease.renew()
    long = staged(tables, FIRST, 1, 2, ids(2))
    path = Path(folder) / long.files[0].path
    os.utime(path, (now_s - 2 * DAY_S, now_s - 2 * DAY_S))

    def listed(self):
        if self == folder and not commits:
            commits.append(commit(tables, long))
            lease.end()
        return entries(self)

    commits = []
    monkeypatch.setattr(Folder, "entries", listed)
    assert sweep(tables, NAME, now_s=now_s) == []
    assert read_ids(tables) == [1, 2]


@FORMATS
@pytest.mark.slow
def test_a_file_that_somebody_removed_before_its_commit_is_not_committed(kind, tmp_path):
    """Another tool's vacuum, or a wrong clock: the table stays readable where it was, and the rows come again."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    lost = staged(tables, FIRST, 1, 3, ids(2, 3))
    (tmp_path / NAME / lost.files[0].path).unlink()
    with pytest.raises(RetryError):
        commit(tables, lost)
    assert (read_ids(tables), tables.open(NAME).positions([FIRST])) == ([1], {FIRST: 1})
    commit(tables, staged(tables, FIRST, 1, 3, ids(2, 3)))
    assert read_ids(tables) == [1, 2, 3]


@FORMATS
@pytest.mark.slow
def test_a_job_that_still_works_keeps_all_that_it_staged(kind, tmp_path):
    """Its lease protects files of any age since it began; without it they are leftovers."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    folder, now_s = tables.folder / NAME, time.time()
    with leased(folder):
        waiting = staged(tables, FIRST, 1, 2, ids(2))
        path = Path(folder) / waiting.files[0].path
        os.utime(path, (now_s - 20 * DAY_S, now_s - 20 * DAY_S))
        assert sweep(tables, NAME, now_s=now_s) == [waiting.files[0].path]
        waiting = staged(tables, FIRST, 1, 2, ids(2))
        lease = next(Path(folder).glob("*.lease"))
        os.utime(lease, (now_s + 5 * DAY_S, now_s + 5 * DAY_S))
        assert sweep(tables, NAME, now_s=now_s + 5.5 * DAY_S) == []
        assert set(sweep(tables, NAME, now_s=now_s + 7 * DAY_S)) == {lease.name, waiting.files[0].path}
    assert read_ids(tables) == [1]


def test_a_stage_renews_the_lease_of_its_job(tmp_path, monkeypatch):
    """With every row group, and a file is written once in an hour."""
    folder, writes = Folder(str(tmp_path)), []
    create = Folder.create

    def noted(self, name):
        writes.append(name)
        return create(self, name)

    monkeypatch.setattr(Folder, "create", noted)
    lease = StagingLease(folder)
    stage = StagingWriter(folder, None, group_bytes=1, lease=lease)
    for number in range(3):
        stage.add(ids(number))
    assert sum(name.endswith(".lease") for name in writes) == 1
    monkeypatch.setattr(module, "_RENEW_S", 0.0)
    stage.add(ids(4))
    stage.close()
    assert sum(name.endswith(".lease") for name in writes) == 2
    lease.end()
    assert not list(tmp_path.glob("*.lease"))


def test_scratch_folders_of_dead_restates_go(tmp_path):
    """Once everything in them is a day old; tables and young ones stay."""
    lake = Folder(str(tmp_path))
    for name in (".restate-dead-t", ".restate-busy-t", "t"):
        (lake / name).create("hub-1.parquet").close()
    now_s = time.time()
    os.utime(tmp_path / ".restate-busy-t" / "hub-1.parquet", (now_s + 2 * DAY_S, now_s + 2 * DAY_S))
    assert sweep_scratch(lake, now_s=now_s) == []
    assert sweep_scratch(lake, now_s=now_s + 2 * DAY_S) == [".restate-dead-t"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".restate-busy-t", "t"]


def test_a_refusal_whose_version_is_gone_from_the_log_removes_nothing(tmp_path):
    """The commit took effect, was refused, and its log entry was replaced by a checkpoint: the positions tell."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    handle, outcome = tables.open(NAME), staged(tables, FIRST, 1, 2, ids(2))
    other = DeltaTables("hub", Folder(str(tmp_path)))
    other.open(NAME).commit(outcome.files, {FIRST: 2})  # what the refused attempt put there
    commit(other, staged(other, FIRST, 2, 3, ids(3)))
    DeltaTable(tmp_path / NAME).create_checkpoint()
    (tmp_path / NAME / "_delta_log" / f"{handle.version + 1:020}.json").unlink()
    with pytest.raises(RetryError):
        handle.commit(outcome.files, {FIRST: 2})
    assert commit(tables, outcome).version is None
    sweep(tables, NAME, now_s=time.time() + 2 * DAY_S)
    assert read_ids(tables) == [1, 2, 3]


def test_a_refused_commit_behind_which_the_table_was_restored_is_told_and_held(tmp_path, monkeypatch):
    """The attempt is found in its version; the next look says that an older one was restored."""
    tables = DeltaTables("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 1, ids(1)))
    handle, outcome = tables.open(NAME), staged(tables, FIRST, 1, 2, ids(2))
    write = DeltaTable.create_write_transaction

    def applied_and_refused(self, *arguments, **named):
        write(self, *arguments, **named)
        DeltaTable(tmp_path / NAME).restore(handle.version)
        write(self, *arguments, **named)  # sent again: there is such a version by now

    monkeypatch.setattr(DeltaTable, "create_write_transaction", applied_and_refused)
    assert handle.commit(outcome.files, {FIRST: 2}) == handle.version + 1
    with pytest.raises(HoldError, match="was restored"):
        tables.open(NAME)
    with pytest.raises(HoldError, match="was restored"):
        sweep(tables, NAME, now_s=time.time() + 2 * DAY_S)
    assert (tmp_path / NAME / outcome.files[0].path).exists()


def test_vacuum_of_iceberg_removes_what_expired(tmp_path):
    """The client that a writer commits with removes nothing; vacuum goes by the folder."""
    tables = IcebergTables("hub", Folder(str(tmp_path)))
    for number in range(3):
        commit(tables, staged(tables, FIRST, number, number + 1, ids(number)))
    metadata = tmp_path / NAME / "metadata"
    before = len(list(metadata.glob("*.avro")))
    assert tables.open(NAME).vacuum(timedelta(0), now_s=time.time() + 1) > 0
    assert len(list(metadata.glob("*.avro"))) < before
    assert read_ids(tables) == [0, 1, 2]


@FORMATS
def test_what_was_never_sent_does_not_pile_up(kind, tmp_path, monkeypatch):
    """A storage that refuses in every cycle leaves no files of cycles behind."""
    tables = kind("hub", Folder(str(tmp_path)))
    outcome = staged(tables, FIRST, 0, 1, ids(1))

    def away(*_):
        raise TableUnavailable("away")

    with monkeypatch.context() as cut:
        cut.setattr(kind, "create", away)
        with pytest.raises(TableUnavailable):
            commit(tables, outcome)
    assert not list(tmp_path.glob("*/hub-*.parquet"))
