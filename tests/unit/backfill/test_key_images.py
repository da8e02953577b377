"""Restates that change keys: what was superseded or deleted stays so, and no old key stays where others came."""

import random
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from aggregator.backfill import key_images as module_of_keys
from aggregator.backfill import replacement as module
from aggregator.backfill.key_images import KEY_COLUMNS, KeyImages, repeated
from aggregator.backfill.replacement import AdmitAll
from aggregator.backfill.retained_rows import RetainedRowSearch
from aggregator.lake.current_state import CurrentState
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.delta import DeltaTables
from aggregator.lake.tables.iceberg import IcebergTables
from tests.effort import turns
from tests.unit.backfill.restates import FLOW, MARK, Restate, keyed
from tests.unit.lake.tabling import FIRST, NAME, commit, read, staged

FORMATS = pytest.mark.parametrize("kind", [DeltaTables, IcebergTables], ids=["delta", "iceberg"])
OLD, NEWER, GONE = 1, 2, None
AGAIN = MARK._replace(topic_id="again")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Attempts follow each other at once."""
    monkeypatch.setattr(module, "PAUSES", replace(module.PAUSES, first_s=0, most_s=0))


class Table:
    """A table with its current state; each piece is one commit, and one file."""

    def __init__(self, kind, folder, *pieces):
        self.tables = kind("hub", Folder(str(folder)))
        self.next = 0
        for piece in pieces:
            self.add(piece)
        self.state = CurrentState(self.tables, self.tables.folder, NAME)

    def add(self, piece) -> None:
        commit(self.tables, staged(self.tables, FIRST, self.next, self.next + 1, keyed(*piece)))
        self.next += 1

    def restate(self, start, end, came, read, **more):
        return Restate(self.tables, start, end, keyed(*came), read=read, **more)

    def rows(self) -> list[tuple]:
        found = read(self.tables, "_offset, _key, _deleted, id")
        return sorted(found, key=lambda row: (row[0], row[1] or b""))

    def current(self) -> list[tuple]:
        self.state.refresh([FIRST, MARK, AGAIN], force=True)
        files = self.tables.open(self.state.table).live_paths()
        found = [self.tables.folder / self.state.table, *files]
        tables = [found[0].rows(name, ["_key", "id"]) for name in files]
        return sorted(row for one in tables for row in zip(*(column.to_pylist() for column in one), strict=True))


FORGOTTEN = (
    [(5, b"alice", False, OLD), (6, b"bob", False, OLD)],
    [(50, b"alice", False, NEWER), (51, b"bob", True, GONE)],
)
TOKENS = [(50, b"token-1", False, NEWER), (51, b"token-2", True, GONE)]


@FORMATS
@pytest.mark.slow
def test_what_was_superseded_or_deleted_stays_so_under_a_new_key(kind, tmp_path):
    """The edge compacted the older records away: their rows stay, and follow the keys of the younger ones."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    assert table.current() == [(b"alice", NEWER)]
    done = table.restate(0, 100, TOKENS, {50, 51}).run()
    assert (done.rows, done.left, done.keyless) == (2, 2, 0)
    assert table.current() == [(b"token-1", NEWER)]
    assert [row[1] for row in table.rows()] == [b"token-1", b"token-2"] * 2
    assert table.restate(0, 100, TOKENS, {50, 51}).run() is None
    assert [row[1] for row in table.rows()] == [b"token-1", b"token-2"] * 2


@FORMATS
@pytest.mark.slow
def test_rows_outside_of_the_plan_follow_too(kind, tmp_path):
    """Retention took the older records, so no plan speaks of their rows, nor of their files."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    done = table.restate(40, 100, TOKENS, {50, 51}).run()
    assert (done.rows, done.left, done.keyless) == (2, 0, 0)
    assert table.current() == [(b"token-1", NEWER)]
    assert {row[1] for row in table.rows()} == {b"token-1", b"token-2"}


@FORMATS
@pytest.mark.slow
def test_a_window_that_ends_before_a_tombstone_brings_nothing_back(kind, tmp_path):
    """The older rows are restated and the younger ones are not asked for: those follow as well."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    table.restate(0, 40, [(5, b"token-1", False, OLD), (6, b"token-2", False, OLD)], {5, 6}).run()
    assert table.current() == [(b"token-1", NEWER)]


@FORMATS
@pytest.mark.slow
def test_a_new_version_of_a_key_replaces_the_tokens_of_the_former(kind, tmp_path):
    """A tombstone comes under each listed version; what it deletes stays deleted, and no record is current twice."""
    table = Table(
        kind, tmp_path,
        [(5, b"v1-alice", False, OLD), (6, b"v1-bob", False, OLD)],
        [(50, b"v1-alice", False, NEWER), (51, b"v1-bob", True, GONE)],
    )  # fmt: skip
    came = [(50, b"v2-alice", False, NEWER), (51, b"v2-bob", True, GONE), (51, b"v1-bob", True, GONE)]
    assert table.restate(0, 100, came, {50, 51}).run().keyless == 0
    assert table.current() == [(b"v2-alice", NEWER)]
    assert [row[:2] for row in table.rows()] == [
        (5, b"v2-alice"), (6, b"v2-bob"), (50, b"v2-alice"), (51, b"v1-bob"), (51, b"v2-bob"),
    ]  # fmt: skip


@FORMATS
@pytest.mark.slow
def test_a_key_that_nothing_came_for_is_lost_where_others_came_under_new_ones(kind, tmp_path):
    """The edge has forgotten carol: her rows stay, but without a key that a policy may hide, and are not current."""
    carol = [(7, b"carol", False, OLD), (8, b"carol", True, GONE)]
    table = Table(kind, tmp_path, *FORGOTTEN, carol)
    done = table.restate(0, 100, TOKENS, {50, 51}).run()
    assert (done.left, done.keyless) == (4, 2)
    assert table.current() == [(b"token-1", NEWER)]
    assert [row[:2] for row in table.rows() if row[0] in (7, 8)] == [(7, None), (8, None)]


@FORMATS
@pytest.mark.slow
def test_a_key_is_lost_with_all_its_rows(kind, tmp_path):
    """Carol's tombstone loses its key, and so does her older row, whose record expired: it is not current again."""
    table = Table(kind, tmp_path, [(7, b"carol", False, OLD)], [(48, b"carol", True, GONE)], *FORGOTTEN)
    assert table.restate(40, 100, TOKENS, {50, 51}).run().keyless == 2
    assert table.current() == [(b"token-1", NEWER)]


@FORMATS
@pytest.mark.slow
def test_a_tombstone_that_nothing_replaces_stays_and_brings_nothing_back(kind, tmp_path):
    """It died under the new policy: it stays, as far as its key is known. A new one that is refused shows the key."""

    class Refuses(AdmitAll):
        def audit_replacement(self, _handle, outcomes):
            return [replace(one, files=()) for one in outcomes]

    for name, came, admission, key in (("died", TOKENS[:1], None, None), ("refused", TOKENS, Refuses(), b"token-2")):
        table = Table(kind, tmp_path / name, *FORGOTTEN)
        restate = table.restate(40, 100, came, {50, 51}, admission=admission)
        done = restate.run()
        assert (done.rows, done.left, done.keyless) == (1, 1, 2 if key is None else 0)
        assert restate.told == [{str(FLOW): 0}]
        assert [row[:3] for row in table.rows() if row[0] in (6, 51)] == [(6, key, False), (51, key, True)]
        assert (b"bob", OLD) not in table.current()


def drawn(*said: tuple[int, bytes, int | None]) -> list[tuple]:
    """Rows of offset, key and what `id` says; a tombstone says nothing."""
    return [(offset, key, number is None, number) for offset, key, number in said]


@FORMATS
@pytest.mark.slow
@pytest.mark.parametrize(
    ("had", "asked", "expected"),
    [
        pytest.param(
            drawn((0, b"k", 0), (1, b"k", 1), (2, b"k", GONE)), (2, drawn((0, b"K1", 0), (1, b"K2", 1))),
            ([(2, b"K1"), (2, b"K2")], []), id="a key is split, and its tombstone is not asked for",
        ),
        pytest.param(
            drawn((0, b"k", 0), (1, b"k", GONE), (2, b"k", 2), (3, b"k", GONE)), (3, drawn((0, b"K", 0), (2, b"K", 2))),
            ([(1, b"K"), (3, b"K")], []), id="one tombstone is left out, another one is not asked for",
        ),
        pytest.param(
            drawn((0, b"k", 0), (1, b"k", GONE), (3, b"k", GONE)), (2, drawn((0, b"K", 0))),
            ([(1, b"K"), (3, b"K")], []), id="the same without a row in between",
        ),
        pytest.param(
            drawn((0, b"k", 0), (1, b"k", GONE)), (2, drawn((0, b"K", 0))),
            ([(1, b"K")], []), id="the only tombstone is left out",
        ),
        pytest.param(
            drawn((0, b"a", 0), (1, b"a", 1), (2, b"a", GONE)), (2, drawn((0, b"A", 0), (1, b"a", 1))),
            ([(2, b"A"), (2, b"a")], []), id="one of the new keys is the old one",
        ),
        pytest.param(
            drawn((0, b"A", 0), (1, b"A", GONE), (2, b"A", 2), (3, b"A", GONE)), (3, drawn((0, b"A", 0), (2, b"A", 2))),
            ([(1, b"A"), (3, b"A")], []), id="no key changes",
        ),
        pytest.param(
            drawn((0, b"A", 0), (1, b"A", GONE), (2, b"A", 2), (3, b"A", 3)), (3, drawn((0, b"A", 0), (2, b"A", 2))),
            ([(1, b"A")], [(b"A", 3)]), id="no key changes, and a younger row is not asked for",
        ),
        pytest.param(
            drawn((0, b"A", GONE), (1, b"B", 1), (2, b"A", 2)), (2, drawn((1, b"B", 1))),
            ([(0, b"A")], [(b"A", 2), (b"B", 1)]), id="no key changes, and others are restated",
        ),
        pytest.param(
            drawn((0, b"B", 0), (1, b"b", GONE), (2, b"b", GONE)), (2, drawn((0, b"b", 0))),
            ([(1, b"b"), (2, b"b")], []), id="its key is another one's now, and nothing came for it",
        ),
        pytest.param(
            drawn((0, b"k", 0), (1, b"v", 1), (2, b"k", GONE)), (2, drawn((0, b"K", 0), (1, b"k", 1))),
            ([(2, b"K"), (2, b"k")], []), id="its key is another one's now, and a new one came for it",
        ),
    ],
)  # fmt: skip
def test_a_deletion_holds_whatever_a_restate_reads_of_it(kind, tmp_path, had, asked, expected):
    """A tombstone that is left out, or not asked for, deletes under each key that came; younger rows keep theirs."""
    table, (end, came) = Table(kind, tmp_path, had), asked
    done = table.restate(0, end, came, set(range(end))).run()
    left_out = sum(1 for row in had if row[0] < end and row[2])
    assert (done.rows, done.left, done.keyless) == (len(came), left_out, 0)
    assert ([row[:2] for row in table.rows() if row[2]], table.current()) == expected


@FORMATS
@pytest.mark.slow
def test_a_row_of_a_key_that_came_as_several_is_nobodys_and_its_tombstone_everybodys(kind, tmp_path):
    """The row may be anybody's and loses its key; to lose the tombstone's would bring the one back that it deleted."""
    table = Table(kind, tmp_path, drawn((0, b"k", 0), (1, b"k", 1)), drawn((2, b"k", 2), (3, b"k", GONE), (4, b"k", 4)))
    done = table.restate(0, 2, drawn((0, b"K1", 0), (1, None, 1)), {0, 1}).run()
    assert (done.rows, done.left, done.keyless) == (2, 0, 2)
    assert [row[:2] for row in table.rows()] == [(0, b"K1"), (1, None), (2, None), (3, b"K1"), (4, None)]
    assert table.current() == []


SPLIT = drawn((0, b"k", 0), (1, b"k", 1), (2, b"k", GONE), (3, b"k", 3))


@FORMATS
@pytest.mark.slow
def test_copies_of_a_tombstone_do_not_tell_whose_a_key_is(kind, tmp_path):
    """Its record is read later: it deletes one of the two, and the other one's rows keep their key."""
    table = Table(kind, tmp_path, SPLIT)
    table.restate(0, 2, drawn((0, b"K1", 0), (1, b"K2", 1)), {0, 1}).run()
    assert [row[:2] for row in table.rows()] == [(0, b"K1"), (1, b"K2"), (2, b"K1"), (2, b"K2"), (3, None)]
    assert table.restate(2, 4, drawn((2, b"K1", GONE), (3, b"K2", 3)), {2, 3}, mark=AGAIN).run().keyless == 0
    assert [row[:2] for row in table.rows()] == [(0, b"K1"), (1, b"K2"), (2, b"K1"), (3, b"K2")]
    assert table.current() == [(b"K2", 3)]


@FORMATS
@pytest.mark.slow
@pytest.mark.parametrize(("key", "keys"), [(b"N1", [None, None]), (b"K2", [None, b"K2"])])
def test_where_nothing_else_came_nobody_knows_whose_a_copied_tombstone_is(kind, tmp_path, key, keys):
    """It may be anybody's under a policy that tells fewer apart: whom it may have deleted does not come back."""
    table = Table(kind, tmp_path, SPLIT[:3])
    table.restate(0, 2, drawn((0, b"K1", 0), (1, b"K2", 1)), {0, 1}).run()
    assert table.restate(2, 3, drawn((2, key, GONE)), {2}, mark=AGAIN).run().keyless == keys.count(None)
    assert [row[:2] for row in table.rows()] == [(0, keys[0]), (1, keys[1]), (2, key)]
    assert table.current() == []


@FORMATS
@pytest.mark.slow
def test_a_key_that_came_as_several_is_lost(kind, tmp_path):
    """A policy that merged keys is replaced by one that tells them apart: nobody knows whose the older row is."""
    table = Table(
        kind, tmp_path, [(5, b"both", False, OLD)], [(50, b"both", False, NEWER), (51, b"both", True, GONE)]
    )  # fmt: skip
    came = [(50, b"one", False, NEWER), (51, b"two", True, GONE)]
    assert table.restate(0, 100, came, {50, 51}).run().keyless == 1
    assert table.current() == [(b"one", NEWER)]


@FORMATS
@pytest.mark.slow
def test_keys_that_do_not_change_stay_where_they_are(kind, tmp_path):
    """A policy that changes values alone: rows that stay keep their keys, and files without affected rows stay."""
    table = Table(kind, tmp_path, *FORGOTTEN, [(7, b"carol", False, OLD), (8, b"carol", True, GONE)])
    before = set(table.tables.open(NAME).live_paths())
    came = [(50, b"alice", False, 9), (51, b"bob", True, GONE)]
    assert table.restate(40, 100, came, {50, 51}).run().keyless == 0
    assert len(before & set(table.tables.open(NAME).live_paths())) == 2
    assert table.current() == [(b"alice", 9)]
    assert {row[1] for row in table.rows()} == {b"alice", b"bob", b"carol"}


@FORMATS
@pytest.mark.slow
def test_a_table_whose_affected_rows_are_gone_meanwhile(kind, tmp_path):
    """Nothing shows what became of keys: every row stays as it is, and the restate is done."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    assert table.restate(60, 100, [], set()).run().rows == 0
    assert {row[1] for row in table.rows()} == {b"alice", b"bob"}


@FORMATS
@pytest.mark.slow
def test_tombstones_of_one_record_under_one_key_are_one_row(kind, tmp_path):
    """Those under two versions of the key follow one image: an audit would take a second row for a double."""
    table = Table(
        kind, tmp_path,
        [(6, b"v2-bob", True, GONE), (6, b"v1-bob", True, GONE)],
        [(51, b"v2-bob", True, GONE)], [(51, b"v1-bob", True, GONE)],
    )  # fmt: skip
    table.restate(40, 100, [(51, b"v3-bob", True, GONE)], {51}).run()
    assert [row[:2] for row in table.rows()] == [(6, b"v3-bob"), (51, b"v3-bob")]


@FORMATS
@pytest.mark.slow
def test_rows_that_come_meanwhile_follow_as_well(kind, tmp_path):
    """A hub that goes on under the keys of before, while the restate commits: one key has one state."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    turns = [lambda: table.add([(60, b"alice", False, 3)]), lambda: table.add([(61, b"bob", True, GONE)])]
    restate = table.restate(0, 55, TOKENS, {50, 51})
    done = restate.replacement.commit(restate.come, lambda _removed: turns.pop()() if turns else None)
    assert (done.rows, done.left) == (2, 2)
    assert table.current() == [(b"token-1", 3)]
    assert {row[1] for row in table.rows()} == {b"token-1", b"token-2"}


@FORMATS
@pytest.mark.slow
@pytest.mark.parametrize(
    ("had", "asked", "expected"),
    [
        pytest.param(
            drawn((0, b"anna", 0), (1, b"Anna", 1), (2, b"anna", 2)), (1, drawn((0, b"Anna", 0))),
            ([(b"Anna", 1)], [2]), id="a record behind shows that the hub went over",
        ),
        pytest.param(
            drawn((0, b"anna", 0), (1, b"anna", 1), (2, b"Anna", 2)), (1, drawn((0, b"Anna", 0))),
            ([(b"Anna", 2)], [1]), id="the same, and it is younger",
        ),
        pytest.param(
            drawn((0, b"anna", 0), (1, b"Anna", 1), (2, b"anna", 2)), (2, drawn((0, b"Anna", 0), (1, b"Anna", 1))),
            ([(b"Anna", 1)], [2]), id="the same, and it came as well",
        ),
        pytest.param(
            drawn((0, b"anna", 0), (1, b"anna", 1), (2, b"Anna", 2), (3, b"anna", 3)),
            (2, drawn((0, b"Anna", 0), (1, b"anna", 1))),
            ([(b"Anna", 2), (b"anna", 1)], [3]), id="both came",
        ),
        pytest.param(
            drawn((0, b"k", 0), (1, b"v", 1), (2, b"k", 2)), (2, drawn((0, b"K", 0), (1, b"k", 1))),
            ([(b"K", 0), (b"k", 1)], [2]), id="its key is another one's now",
        ),
        pytest.param(
            drawn((0, b"k", 0), (2, b"k", 2), (3, b"k", 3), (5, b"K", 5)), (4, drawn((3, b"K", 3))),
            ([(b"K", 5)], []), id="the hub went over, and what lies before the last former record follows",
        ),
        pytest.param(
            drawn((0, b"v1_anna", 0), (1, b"v1_anna", 1), (2, b"v1_anna", GONE), (2, b"v2_anna", GONE))
            + drawn((3, b"v2_anna", 3)),
            (3, drawn((0, b"v2_Anna", 0), (1, b"v2_anna", 1), (2, b"v2_Anna", GONE), (2, b"v1_Anna", GONE))),
            ([(b"v2_anna", 1)], [3]), id="a tombstone has a further version, which is another one's",
        ),
        pytest.param(
            drawn((0, b"v1_anna", 0), (2, b"v1_anna", GONE), (2, b"v2_anna", GONE), (3, b"v2_anna", 3)),
            (3, drawn((0, b"v2_Anna", 0), (2, b"v2_Anna", GONE), (2, b"v1_Anna", GONE))),
            ([], [3]), id="a tombstone has a further version, and nothing else came of it",
        ),
        pytest.param(
            drawn((0, b"v2-x", 0), (1, b"v2-x", GONE), (1, b"v1-x", GONE)), (2, drawn((1, b"v3-x", GONE))),
            ([], []), id="the same, and what the tombstone deleted follows it",
        ),
    ],
)  # fmt: skip
def test_no_row_goes_to_a_person_whose_it_may_not_be(kind, tmp_path, had, asked, expected):
    """A hub under the new policy may have written it: it has no key, and is counted, and is in no current state."""
    table, (end, came) = Table(kind, tmp_path, had), asked
    done = table.restate(0, end, came, {row[0] for row in came}).run()
    keyless = [row[0] for row in table.rows() if row[1] is None]
    assert (table.current(), keyless) == expected
    assert done.keyless == len(keyless)


@FORMATS
@pytest.mark.slow
def test_a_tombstone_that_may_be_either_ones_deletes_both(kind, tmp_path):
    """It lies behind a record under the new policy: whoever it deleted, under whichever policy, does not come back."""
    had = drawn((0, b"anna", 0), (1, b"Anna", 1), (2, b"anna", 2), (3, b"anna", GONE))
    table = Table(kind, tmp_path, had)
    assert table.restate(0, 1, drawn((0, b"Anna", 0)), {0}).run().keyless == 1
    assert [row[:2] for row in table.rows() if row[2]] == [(3, b"Anna"), (3, b"anna")]
    assert table.restate(1, 3, drawn((1, b"Anna", 1), (2, b"anna", 2)), {1, 2}, mark=AGAIN).run().keyless == 0
    assert table.current() == []
    again = MARK._replace(topic_id="whole")
    came = drawn((0, b"Anna", 0), (1, b"Anna", 1), (2, b"anna", 2), (3, b"anna", GONE))
    table.restate(0, 4, came, {0, 1, 2, 3}, mark=again).run()
    assert [row[:2] for row in table.rows()] == [(0, b"Anna"), (1, b"Anna"), (2, b"anna"), (3, b"anna")]


@FORMATS
@pytest.mark.slow
def test_a_listed_version_does_not_show_that_the_hub_went_over(kind, tmp_path):
    """The former policy listed the version that is the key of now: rows behind the plan follow, none keeps its key."""
    had = [*drawn((0, b"v2-x", 0), (1, b"v2-x", 1)), *drawn((2, b"v2-x", GONE), (2, b"v1-x", GONE), (3, b"v2-x", 3))]
    table = Table(kind, tmp_path, had)
    assert table.restate(0, 1, drawn((0, b"v1-x", 0)), {0}).run().keyless == 0
    assert [row[:2] for row in table.rows()] == [(at, b"v1-x") for at in range(4)]
    assert table.current() == [(b"v1-x", 3)]


@FORMATS
@pytest.mark.slow
def test_a_restate_up_to_the_end_tells_whose_each_row_is(kind, tmp_path):
    """A window that ends before makes an older row current, and counts it; all of the log, the newest one."""
    log = drawn((0, b"A", 0), (1, b"a", 1), (2, b"A", 2))
    table = Table(kind, tmp_path, [(at, b"a", *rest) for at, _, *rest in log])
    assert table.restate(0, 2, log[:2], {0, 1}).run().keyless == 1
    assert table.current() == [(b"A", 0), (b"a", 1)]
    assert table.restate(0, 3, log, {0, 1, 2}, mark=AGAIN).run().keyless == 0
    assert table.current() == [(b"A", 2), (b"a", 1)]


@FORMATS
@pytest.mark.slow
@pytest.mark.parametrize("images", [2, 3])
def test_a_key_of_many_people_is_deleted_by_the_youngest_of_its_tombstones(kind, tmp_path, monkeypatch, images):
    """A row for each of them from that one alone, in whatever file it is; the bound counts the old key as well."""
    monkeypatch.setattr("aggregator.backfill.key_images.IMAGES", 3)
    table = Table(
        kind, tmp_path,
        drawn((0, b"k", 0), (1, b"k", 1), (2, b"k", 2), (5, b"k", GONE)),
        drawn((4, b"k", GONE), (6, b"k", GONE), (7, b"k", 7)), drawn((3, b"k", GONE)),
    )  # fmt: skip
    came = drawn(*((at, b"K%d" % at, at) for at in range(images)))
    table.restate(0, images, came, {0, 1, 2}).run()
    keys = [b"K%d" % at for at in range(images)]
    older = keys if images == 2 else keys[:1]
    assert [row[:2] for row in table.rows() if row[2]] == [
        *((at, key) for at in (3, 4, 5) for key in older), *((6, key) for key in keys),
    ]  # fmt: skip
    assert table.current() == []


@FORMATS
@pytest.mark.slow
def test_long_keys_of_many_tombstones_are_written_piece_by_piece(kind, tmp_path, monkeypatch):
    """Fifteen rows of each tombstone of one file, and no array of theirs is larger than a piece and a key."""
    monkeypatch.setattr("aggregator.backfill.key_images.PIECE_BYTES", 1_000)
    people = range(15)
    deleted = range(20, 40)
    table = Table(kind, tmp_path, drawn(*((at, b"k", at) for at in people), *((at, b"k", GONE) for at in deleted)))
    keys = {at: b"%02d" % at + b"K" * 98 for at in people}
    restate, pieces = table.restate(0, 15, drawn(*((at, keys[at], at) for at in people)), {*people}), []
    followed = RetainedRowSearch._followed

    def watched(rows, images):
        for piece in followed(rows, images):
            pieces.append(len(piece))
            yield piece

    monkeypatch.setattr(RetainedRowSearch, "_followed", staticmethod(watched))
    restate.run()
    assert [row[:2] for row in table.rows() if row[2]] == [(at, key) for at in deleted for key in keys.values()]
    assert max(pieces) <= 11
    assert sum(pieces) == 15 * 20
    assert table.current() == []


@pytest.mark.slow
def test_keys_of_more_than_two_gib_are_no_trouble_to_a_restate():
    """A producer sends tombstones with a key of 1 MB, which stood for fifteen people: they are counted, not copied."""
    people, long = range(15), b"k" * 1_000_000
    had = keyed(*drawn(*((at, long, at) for at in people))).select(KEY_COLUMNS)
    came = keyed(*drawn(*((at, b"%02d" % at + long, at) for at in people))).select(KEY_COLUMNS)
    stay = keyed(*drawn(*((at, long, GONE) for at in range(20, 170)))).select(KEY_COLUMNS)
    found = KeyImages.of(had, np.zeros(15, np.bool_), [came]).rekeyed(stay)
    assert len(found.rows) == 15 * 150
    assert not len(repeated([found.tombstones])[0].rows)
    assert max(keys.nbytes for _, keys in found.pieces()) < 20_000_000


def test_a_pair_of_an_old_and_a_new_key_is_small_and_there_once(monkeypatch):
    """Keys are long, their versions many, and somebody doubled the rows: a pair of keys is a pair of numbers."""
    agreed, seen = module_of_keys._agreed, []

    def watched(pairs, *more):
        seen.append(pairs)
        return agreed(pairs, *more)

    monkeypatch.setattr(module_of_keys, "_agreed", watched)
    versions, copies = range(16), 20
    had, came = (
        keyed(*drawn(*((at, name + b"%02d" % one * 5_000, GONE) for at in range(3) for one in versions)))
        for name in (b"old", b"new")
    )
    had, came = pa.concat_tables([had.select(KEY_COLUMNS)] * copies), came.select(KEY_COLUMNS)
    assert KeyImages.of(had, np.zeros(len(had), np.bool_), [came] * copies)
    assert len(seen[0]) == 3 * len(versions) ** 2
    assert seen[0].estimated_size() <= 100 * len(seen[0])


@FORMATS
@pytest.mark.slow
def test_a_tombstone_of_many_people_that_comes_meanwhile_is_the_youngest(kind, tmp_path, monkeypatch):
    """What was worked out before a conflict holds no more where another one deletes more."""
    monkeypatch.setattr("aggregator.backfill.key_images.IMAGES", 1)
    table = Table(kind, tmp_path, drawn((0, b"k", 0), (1, b"k", 1), (2, b"k", GONE)))
    turns = [lambda: table.add(drawn((3, b"k", GONE)))]
    restate = table.restate(0, 2, drawn((0, b"K", 0), (1, b"L", 1)), {0, 1})
    restate.replacement.commit(restate.come, lambda _removed: turns.pop()() if turns else None)
    assert [row[:2] for row in table.rows() if row[2]] == [(2, b"K"), (3, b"K"), (3, b"L")]


@FORMATS
@pytest.mark.slow
def test_a_record_without_a_key_is_counted_once(kind, tmp_path):
    """Its tombstone had rows under two versions, and is one row without a key then; one with a key says it all."""
    table = Table(kind, tmp_path, drawn((0, b"v2-x", GONE), (0, b"v1-x", GONE), (1, b"v2-y", 1)))
    assert table.restate(0, 2, drawn((1, b"w-y", 1)), {0, 1}).run().keyless == 1
    assert [row[:2] for row in table.rows()] == [(0, None), (1, b"w-y")]
    table = Table(kind, tmp_path / "known", drawn((0, b"v2-x", GONE), (0, b"v1-x", GONE), (1, b"v2-x", 1)))
    assert table.restate(0, 2, drawn((1, b"w-x", 1)), {0, 1}).run().keyless == 0
    assert [row[:2] for row in table.rows()] == [(0, b"w-x"), (1, b"w-x")]


class Killed(BaseException):
    """The process is gone."""


def dying(_removed) -> None:
    raise Killed


@FORMATS
@pytest.mark.parametrize("after", [False, True], ids=["before the commit", "behind it"])
@pytest.mark.slow
def test_a_restate_that_is_killed_goes_on(kind, tmp_path, monkeypatch, after):
    """Before its commit everything is as it was; behind it everything is done, and nothing is done twice."""
    table = Table(kind, tmp_path, *FORGOTTEN)
    before, handle = table.rows(), type(table.tables.open(NAME))
    send = handle.commit

    def dies(self, *arguments):
        if after:
            send(self, *arguments)
        raise Killed

    monkeypatch.setattr(handle, "commit", dies)
    with pytest.raises(Killed):
        table.restate(0, 100, TOKENS, {50, 51}).run()
    monkeypatch.setattr(handle, "commit", send)
    assert (table.rows() == before) is not after
    assert (table.restate(0, 100, TOKENS, {50, 51}).run() is None) is after
    assert table.current() == [(b"token-1", NEWER)]


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("seed", turns(4, 12))
def test_no_restate_of_keys_makes_an_older_row_current(kind, tmp_path, seed):
    """Drawn logs, compactions, windows and kills: nobody is current by another row than before, or under two keys."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    people = [b"%d" % number for number in range(chance.randint(1, 5))]
    log = [(at, chance.choice(people), chance.random() < 0.3) for at in sorted(chance.sample(range(60), 25))]
    rows = [(at, who, dead, None if dead else at) for at, who, dead in log]
    cut = chance.randint(1, len(rows) - 1)
    table = Table(kind, tmp_path, rows[:cut], rows[cut:])
    newest = {who: at for at, who, _ in log}
    there = {at for at, who, _ in log if newest[who] == at or chance.random() < 0.4}
    retained, end = chance.choice([0, 20]), chance.choice([60, 60, 40])
    came = [(at, b"t" + who, dead, said) for at, who, dead, said in rows if at in there and retained <= at < end]
    restate = table.restate(retained, end, came, there)
    if chance.random() < 0.5:
        with pytest.raises(Killed):
            restate.replacement.commit(restate.come, dying)
    table.restate(retained, end, came, there).run()
    assert table.restate(retained, end, came, there).run() is None
    current = {said: key for key, said in table.current()}
    alive = {at: who for at, who, dead in log if newest[who] == at and not dead}
    assert current.keys() <= alive.keys()
    seen = {who for at, who, _ in log if at in there and retained <= at < end}
    assert {at for at, who in alive.items() if who in seen} <= current.keys()
    assert all(key in (b"t" + alive[said], alive[said]) for said, key in current.items())
    assert all(key == b"t" + alive[said] for said, key in current.items() if alive[said] in seen)
