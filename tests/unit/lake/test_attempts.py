"""Turns on a table: how long the hub's own cycles wait for a job that lost too often."""

import pytest

from aggregator.lake.cycle.attempts import TURN, CommitTurns, Done, commit_with_retries
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.port import CommitConflict


class Clock:
    """Seconds that a test moves."""

    def __init__(self):
        self.now_s = 100.0

    def __call__(self):
        return self.now_s


def ask(folder, word):
    with folder.create(TURN) as sink:
        sink.write(word)


def test_a_turn_lasts_as_long_as_it_is_bounded(tmp_path):
    """From when it was seen, whatever the storage's clock says; the next one counts anew; a dead owner's file goes."""
    clock, folder = Clock(), Folder(str(tmp_path))
    turns = CommitTurns(clock)
    assert not turns.is_reserved_by_other(folder)
    ask(folder, b"a")
    told = []
    for _ in range(5):
        told.append(turns.is_reserved_by_other(folder))
        clock.now_s += 6.0
    assert told == [True, True, True, True, False]
    turns.remove_expired(folder)
    assert not (tmp_path / TURN).exists()
    ask(folder, b"b")
    assert turns.is_reserved_by_other(folder)
    turns.remove_expired(folder)
    assert (tmp_path / TURN).exists()
    folder.remove(TURN)
    assert not turns.is_reserved_by_other(folder)
    ask(folder, b"b")
    clock.now_s += 60.0
    assert turns.is_reserved_by_other(folder), "it was away in between"


def test_tables_have_turns_of_their_own(tmp_path):
    """Another table's commits wait for nobody."""
    turns, folder = CommitTurns(Clock()), Folder(str(tmp_path))
    ask(folder / "orders", b"a")
    assert [turns.is_reserved_by_other(folder / name) for name in ("orders", "clicks")] == [True, False]


@pytest.mark.parametrize("writable", [True, False])
def test_a_turn_is_asked_for_after_some_conflicts(tmp_path, writable):
    """Where the storage takes no file there is none, and the attempts go on."""
    folder, seen = Folder(str(tmp_path / "orders")), []
    if not writable:
        (tmp_path / "orders").write_text("no folder")

    def attempt():
        seen.append((tmp_path / "orders" / TURN).exists())
        if len(seen) < 7:
            raise CommitConflict("somebody was first")
        return Done("done")

    assert commit_with_retries("orders", attempt, folder=folder) == "done"
    assert seen == [False] * 4 + [writable] * 3
    assert not (tmp_path / "orders" / TURN).exists()
    with pytest.raises(CommitConflict, match="3 times"):
        commit_with_retries("orders", lambda: seen.clear() or attempt(), most=3, folder=folder)
