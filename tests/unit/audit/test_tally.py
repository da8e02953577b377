"""The audit's arithmetic against a naive model that keeps every record in a list."""

import itertools
from collections import Counter
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.audit.tally import Rules, Sums, Tally, compare, ranges, ranges_of
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.replicate.flow.gaps import segments
from aggregator.state.gap import Gap, GapDecision, GapKind

FLOW = EdgePartition("eu", "orders", 0)
START, END = 5, 25
offsets = st.lists(st.integers(0, 30), max_size=40)


def spread(found) -> set[int]:
    """Every offset of some ranges."""
    return {offset for one in found for offset in range(*one)}


@given(st.sets(st.integers(0, 300)))
def test_ranges_are_the_marked_offsets(wanted):
    """Half-open ranges, in order, never touching, that hold exactly what was marked."""
    marks = np.zeros(301, np.bool_)
    marks[sorted(wanted)] = True
    for found in (ranges(marks, 0), ranges_of(wanted)):
        assert spread(found) == wanted
        assert all(left.end < right.start for left, right in itertools.pairwise(found))
    assert ranges(marks, 7) == [OffsetRange(one.start + 7, one.end + 7) for one in ranges(marks, 0)]


@given(st.lists(offsets, max_size=5))
def test_a_count_is_how_often_an_offset_came(pieces):
    """Offsets in any order and in any pieces, each as often as it comes; what lies outside is passed over."""
    tally = Tally(IncarnationRange(0, OffsetRange(START, END)))
    for piece in pieces:
        tally.count(tally.central, np.array(piece, np.int64))
    naive = Counter(offset for piece in pieces for offset in piece if START <= offset < END)
    assert {START + i: int(n) for i, n in enumerate(tally.central) if n} == dict(naive)


def test_a_byte_that_is_full_stays_full():
    """A record that is there 256 times is not a record that is missing."""
    tally = Tally(IncarnationRange(0, OffsetRange(START, END)))
    for times in (200, 56, 1000):
        tally.count(tally.central, np.full(times, START, np.int64))
    assert tally.central.tolist() == [255] + [0] * (END - START - 1)


@dataclass(frozen=True)
class Records:
    """What a naive audit would keep: the offsets of every record, in every place."""

    edge: list[int]
    central: list[int]
    lake: list[int]
    dead: list[int]
    later: list[int]
    expired: list[int]

    def tally(self) -> Tally:
        """The same, as the audit keeps it."""
        tally = Tally(IncarnationRange(0, OffsetRange(START, END)))
        for counts, found in (
            (tally.edge, sorted(set(self.edge))),
            (tally.central, self.central),
            (tally.lake, self.lake),
            (tally.dead, sorted(set(self.dead))),
        ):
            tally.count(counts, np.array(found, np.int64))
        tally.not_in_lake_yet[tally.indexes(np.array(self.later, np.int64))] = True
        tally.expired[tally.indexes(np.array(self.expired, np.int64))] = True
        return tally

    def wrong(self, rules: Rules) -> dict[tuple[str, str], set[int]]:
        """What an audit must find, one offset at a time."""
        found: dict[tuple[str, str], set[int]] = {}
        for offset in range(START, END):
            for what, holds in self._one(offset, rules).items():
                if holds:
                    found.setdefault(what, set()).add(offset)
        return found

    def _one(self, offset: int, rules: Rules) -> dict[tuple[str, str], bool]:
        copies, rows = self.central.count(offset), self.lake.count(offset)
        at_edge, letter = offset in self.edge, offset in self.dead
        never_there = not at_edge and not rules.edge_compacts
        lost = at_edge and not copies and not letter
        due = (copies and offset not in self.later) or (lost and offset in self.expired)
        return {
            ("doubled", "central"): copies > 1 or (copies and letter),
            ("unexplained", "central"): (copies or letter) and never_there,
            ("missing", "lake"): rules.lake and due and not rows,
            ("doubled", "lake"): rules.lake and rows > 1,
            ("unexplained", "lake"): rules.lake and rows and not copies and (letter or never_there),
            ("absent", "central"): lost and offset not in self.expired,
        }


@given(st.builds(Records, *[offsets] * 6), st.builds(Rules, lake=st.booleans(), edge_compacts=st.booleans()))
def test_every_difference_is_found_and_named(records, rules):
    """Doubled, unexplained and missing, at central and in the lake, are the offsets that a naive model names."""
    found, absent = compare(records.tally(), rules)
    named = {(one.kind, one.place): spread(one.offsets) for one in found}
    if absent.any():
        named["absent", "central"] = spread(ranges(absent, START))
    assert named == records.wrong(rules)
    assert all(one.records == len(spread(one.offsets)) for one in found)


@given(offsets, offsets, st.integers(START, END))
def test_hashes_add_up_over_windows_and_depend_on_no_order(edge, central, cut):
    """The sum over two windows is the documented sum over all records, each as often as it is there."""
    sums = Sums()
    for part in (OffsetRange(START, cut), OffsetRange(cut, END)):
        tally = Tally(IncarnationRange(3, part))
        tally.count(tally.edge, np.array(sorted(set(edge)), np.int64))
        tally.count(tally.central, np.array(central[::-1], np.int64))
        sums.add(FLOW, tally)

    def documented(records):
        found = (blake2b(f"eu/orders/0/{o}/3".encode(), digest_size=16).digest() for o in records if START <= o < END)
        return sum(int.from_bytes(one, "big") for one in found) % 2**128

    assert sums.hashes == {"edge": documented(set(edge)), "central": documented(central), "lake": 0}
    assert (sums.edge, sums.central) == (
        len(spread([(START, END)]) & set(edge)),
        sum(START <= o < END for o in central),
    )


def cut_at(incarnation, position, offset) -> GapDecision:
    """An accepted rewind."""
    return GapDecision(FLOW, Position(incarnation, position), Gap(GapKind.TRUNCATED, offset, None, 0), "ada", 0, "")


def made_anew(incarnation, position) -> GapDecision:
    """What the hub itself writes when a topic was created again."""
    lost = Gap(GapKind.RECREATED, position, None, 0)
    return GapDecision(FLOW, Position(incarnation, position), lost, "the hub", 0, "", automatic=True)


@pytest.mark.parametrize(
    ("position", "log_start", "decisions", "expected"),
    [
        (Position(0, 50), 0, [], [(0, 0, 50)]),
        (Position(3, 50), 10, [], [(3, 10, 50)]),
        (Position(0, 50), 50, [], []),
        (Position(1, 80), 0, [cut_at(0, 50, 30)], [(0, 0, 30), (1, 30, 80)]),
        (Position(1, 80), 40, [cut_at(0, 50, 30)], [(1, 40, 80)]),
        (Position(2, 80), 0, [cut_at(0, 50, 30), cut_at(1, 60, 20)], [(0, 0, 20), (2, 20, 80)]),
        (Position(2, 80), 0, [cut_at(0, 50, 20), cut_at(1, 60, 30)], [(0, 0, 20), (1, 20, 30), (2, 30, 80)]),
        (Position(2, 80), 0, [cut_at(0, 50, 30)], [(2, 0, 80)]),
        (Position(1, 200), 0, [cut_at(0, 100, 50), made_anew(0, 100)], [(1, 0, 200)]),
        (Position(1, 200), 0, [made_anew(0, 100), cut_at(0, 100, 50)], [(1, 0, 200)]),
        (Position(2, 80), 0, [cut_at(0, 50, 30), made_anew(0, 50), cut_at(1, 60, 20)], [(1, 0, 20), (2, 20, 80)]),
    ],
)
def test_an_offset_belongs_to_the_incarnation_that_read_it(position, log_start, decisions, expected):
    """A rewind splits the log where it had been cut; an earlier life of the topic has no part in it.

    Somebody may have accepted a cut, and the topic was recreated before the hub went by that: the new log has no cut.
    """
    found = segments(position, log_start, decisions)
    assert [(one.incarnation, *one.offsets) for one in found] == expected
