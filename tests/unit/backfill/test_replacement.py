"""Rows replaced in real tables of both formats, beside writers that commit in between."""

import time
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aggregator.backfill import replacement as module
from aggregator.backfill import retained_rows
from aggregator.backfill.replacement import AdmitAll
from aggregator.errors import HoldError
from aggregator.lake.current_state import CurrentState
from aggregator.lake.cycle.attempts import TURN, CommitTurns
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from aggregator.lake.tables.port import CommitConflict
from aggregator.lake.upkeep.compaction import compact
from aggregator.lake.upkeep.orphans import sweep
from tests.unit.backfill.restates import FLOW, MARK, NEW, OWN, Restate, origins
from tests.unit.lake.tabling import FIRST, NAME, commit, read, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Attempts follow each other ten times as fast."""
    monkeypatch.setattr(module, "PAUSES", replace(module.PAUSES, first_s=module.PAUSES.first_s / 10))


def content(tables) -> dict[int, int]:
    """Each offset once, and what it holds."""
    found = read(tables, "_offset, id") if tables.open(NAME).live_paths() else []
    assert len({offset for offset, _ in found}) == len(found), "an origin is there twice"
    return dict(found)


def orphans(tables) -> set[str]:
    """Files in the table's folder that no version names, once what commits were sent with is two days old."""
    sweep(tables, NAME, now_s=time.time() + 2 * 86_400)
    here = {one.name for one in (tables.folder / NAME).entries() if one.name.endswith(".parquet")}
    return here - {path.rpartition("/")[2] for path in tables.open(NAME).referenced_paths()}


@pytest.mark.slow
@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@FORMATS
@given(
    st.lists(st.sets(st.integers(0, 30), min_size=1), min_size=1, max_size=4),
    st.tuples(st.integers(0, 30), st.integers(0, 30)).map(sorted),
    st.tuples(st.sets(st.integers(0, 30)), st.sets(st.integers(0, 30))),
)
def test_exactly_the_affected_rows_are_replaced_once(kind, tmp_path_factory, commits, window, rest):
    """By their own new rows; by nothing where the record was read and left out; else not, and never a second time.

    What was not read stays, whatever else of the table was.
    """
    came, read = rest
    tables = kind("hub", Folder(str(tmp_path_factory.mktemp("lake"))))
    had: set[int] = set()
    for number, offsets in enumerate(commits):
        commit(tables, staged(tables, FIRST, number, number + 1, origins(*sorted(offsets - had))))
        had |= offsets
    start, end = window
    affected = had & set(range(start, end))
    restate = Restate(tables, start, end, sorted(came & set(range(start, end))), read=read)
    before = tables.open(NAME)
    done = restate.run()
    gone, left = (affected - came) & read, affected - came - read
    expected = {offset: offset + (NEW if offset in affected - left else 0) for offset in had - gone}
    assert content(tables) == expected
    assert (done.rows, done.left) == (len(affected - left), len(left))
    assert restate.told[-1] == ({str(FLOW): len(gone)} if affected else {})
    after = tables.open(NAME)
    assert after.version == before.version + 1
    assert after.positions([FIRST]) == before.positions([FIRST])
    assert restate.run() is None
    assert content(tables) == expected
    assert not orphans(tables)


class Beside(AdmitAll):
    """A table without rules; while the new rows are admitted, somebody else commits."""

    def __init__(self, *turns):
        self.turns, self.asked = list(turns), 0

    def audit_replacement(self, handle, outcomes):
        self.asked += 1
        return super().audit_replacement(handle, outcomes)

    def told(self, _removed):
        if self.turns:
            self.turns.pop(0)()


@FORMATS
@pytest.mark.slow
def test_other_writers_are_not_lost_and_do_not_win(kind, tmp_path):
    """Rows that come, and a compaction, between look and commit: both stay, new rows are not worked out again."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    commit(tables, staged(tables, FIRST, 5, 9, origins(*range(5, 9))))
    beside = Beside(
        lambda: commit(tables, staged(tables, FIRST, 9, 10, origins(9))),
        lambda: compact(tables, tables.folder / NAME, NAME),
        lambda: commit(tables, staged(tables, FIRST, 10, 11, origins(10))),
    )
    restate = Restate(tables, 2, 7, range(2, 7), admission=beside)
    assert restate.replacement.commit(restate.come, beside.told).rows == 5
    assert content(tables) == {offset: offset + (NEW if 2 <= offset < 7 else 0) for offset in range(11)}
    assert beside.asked == 1
    assert tables.open(NAME).positions([FIRST, MARK, OWN]) == {FIRST: 11, MARK: 1, OWN: 5}
    assert not orphans(tables)


@FORMATS
@pytest.mark.slow
def test_two_processes_that_restate_the_same_do_it_once(kind, tmp_path):
    """The one that comes second finds the mark, and leaves nothing behind."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    first = Restate(tables, 0, 3, range(3))
    beside = Beside(first.run)
    second = Restate(tables, 0, 3, range(3), admission=beside)
    version = tables.open(NAME).version
    assert second.replacement.commit(second.come, beside.told) is None
    assert tables.open(NAME).version == version + 1
    assert content(tables) == {0: NEW, 1: NEW + 1, 2: NEW + 2, 3: 3, 4: 4}
    assert not orphans(tables)


@FORMATS
@pytest.mark.slow
def test_a_row_that_somebody_takes_out_meanwhile_does_not_come_back(kind, tmp_path):
    """New rows are only of origins that the very version has upon which they are committed."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))

    def take_out() -> None:
        handle = tables.open(NAME)
        handle.commit(staged(tables, FIRST, 0, 5, origins(0, 1, 3, 4)).files, {FIRST: 6}, handle.live_files())

    beside = Beside(take_out)
    restate = Restate(tables, 1, 4, range(1, 4), admission=beside)
    assert restate.replacement.commit(restate.come, beside.told).rows == 2
    assert content(tables) == {0: 0, 1: NEW + 1, 3: NEW + 3, 4: 4}
    assert beside.asked == 2
    assert not orphans(tables)


@FORMATS
@pytest.mark.slow
def test_what_is_refused_changes_nothing(kind, tmp_path):
    """Rules that hold the new rows leave the table, and its folder, as they were."""

    class Closed(AdmitAll):
        def audit_replacement(self, _handle, outcomes):
            raise HoldError(f"{len(outcomes)} outcomes fail a rule")

    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    before = tables.open(NAME).version
    with pytest.raises(HoldError, match="fail a rule"):
        Restate(tables, 0, 3, range(3), admission=Closed()).run()
    assert tables.open(NAME).version == before
    assert content(tables) == dict(zip(range(5), range(5), strict=True))


@FORMATS
@pytest.mark.slow
def test_a_faster_writer_is_given_up_against(kind, tmp_path, monkeypatch):
    """After so many conflicts it says so, and leaves nothing behind."""
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    offsets = iter(range(5, 9))

    def faster(at=offsets) -> None:
        offset = next(at)
        commit(tables, staged(tables, FIRST, offset, offset + 1, origins(offset)))

    beside = Beside(faster, faster, faster)
    restate = Restate(tables, 0, 3, range(3), admission=beside)
    with pytest.raises(CommitConflict, match="3 times"):
        restate.replacement.commit(restate.come, beside.told)
    assert content(tables) == dict(zip(range(8), range(8), strict=True))
    assert not orphans(tables)


@FORMATS
@pytest.mark.slow
@pytest.mark.parametrize("bound", [300, 1300])
def test_more_keys_than_memory_is_meant_for_are_refused(kind, tmp_path, monkeypatch, bound):
    """Of the table's rows, and of those with the new ones; nothing changes, and the advice is followed."""
    monkeypatch.setattr(retained_rows, "KEYS_BYTES", bound)
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 20, origins(*range(20))))
    with pytest.raises(HoldError, match="are compared at once") as error:
        Restate(tables, 0, 20, range(20)).run()
    assert "in pieces" in error.value.hint
    assert content(tables) == dict(zip(range(20), range(20), strict=True))
    assert not orphans(tables)
    assert Restate(tables, 0, 2, range(2)).run().rows == 2


@FORMATS
@pytest.mark.slow
def test_a_faster_writer_of_the_hub_leaves_it_a_turn(kind, tmp_path):
    """One that commits during every attempt, as often as it may; the turn leaves nothing behind."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 5, origins(*range(5))))
    turns, offsets = CommitTurns(), iter(range(5, 99))

    def faster() -> None:
        if not turns.is_reserved_by_other(tables.folder / NAME):
            offset = next(offsets)
            commit(tables, staged(tables, FIRST, offset, offset + 1, origins(offset)))

    beside = Beside(*[faster] * 30)
    restate = Restate(tables, 0, 3, range(3), admission=beside)
    assert restate.replacement.commit(restate.come, beside.told).rows == 3
    assert next(offsets) == 9, "four conflicts, and no more"
    assert not (tmp_path / NAME / TURN).exists()
    assert not orphans(tables)


@FORMATS
@pytest.mark.slow
def test_the_current_state_follows_a_restate(kind, tmp_path):
    """Live positions stay where they are; by the restate's mark the state is worked out anew, once."""
    tables = kind("hub", Folder(str(tmp_path)))
    commit(tables, staged(tables, FIRST, 0, 6, origins(*range(6))))
    state = CurrentState(tables, tables.folder, NAME)
    state.refresh([FIRST])
    Restate(tables, 3, 6, [3, 5]).run()
    assert state.refresh([FIRST], force=True) is None, "without the mark nobody would know"
    assert state.refresh([FIRST, MARK], force=True) is not None
    assert state.refresh([FIRST, MARK], force=True) is None
    files = tables.open(state.table).live_paths()
    kept = pa.concat_tables((tables.folder / state.table).rows(name, ["_key", "id"]) for name in files)
    assert sorted(zip(kept["_key"].to_pylist(), kept["id"].to_pylist(), strict=True)) == [
        (b"k0", NEW + 3), (b"k1", 1), (b"k2", NEW + 5),
    ]  # fmt: skip
