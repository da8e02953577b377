"""The search for a position, against a walk through the whole log."""

from bisect import bisect_left

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import OffsetRange, Position
from aggregator.offsets import search as halving
from aggregator.offsets.search import Placed, Search, SearchWindow, run_search

# What an offset of central's log is: a marker or an aborted record, a record of another flow, one of a backfill, or
# one of the flow. The last one's number is how far the edge went on before it: what was dropped in between is nowhere.
OFFSETS = st.one_of(
    st.just("marker"), st.just("foreign"), st.just("backfilled"), st.integers(0, 5), st.just("incarnation")
)
LOGS = st.lists(OFFSETS, max_size=120)


class Log:
    """A partition at central, as a read_committed reader sees it."""

    def __init__(self, first: int, entries, gone: set[int]) -> None:
        self.first, self.end, self.flow, self.others = first, first + len(entries), [], []
        incarnation, edge = 0, 0
        for offset, entry in enumerate(entries, first):
            if entry == "incarnation":
                incarnation, edge = incarnation + 1, 0
            elif entry in ("foreign", "backfilled"):
                self.others.append(offset)
            elif entry != "marker":
                edge += entry
                if offset not in gone:  # compaction
                    self.flow.append(Placed(offset, Position(incarnation, edge)))
                edge += 1
        self.looks = 0

    def window(self, batch: int, most: int):
        """A reader that hands out `batch` records of any kind at once, and reads `most` in vain at most."""

        def look(offsets: OffsetRange) -> SearchWindow:
            self.looks += 1
            records = sorted([one.offset for one in self.flow] + self.others)
            place, until, vain = bisect_left(records, offsets.start), offsets.start, 0
            while True:
                taken = [one for one in records[place : place + batch] if one < offsets.end]
                if not taken:
                    return SearchWindow(offsets.start, offsets.end)
                place, until, vain = place + batch, taken[-1] + 1, vain + len(taken)
                found = tuple(one for one in self.flow if offsets.start <= one.offset < until)
                if found or vain >= most:
                    return SearchWindow(offsets.start, until, found)

        return look

    def oracle(self, wanted: Position) -> tuple[Placed | None, Placed | None]:
        """By walking: the flow's last record before a position, and its first one from there on."""
        before = [one for one in self.flow if one.position < wanted]
        behind = [one for one in self.flow if one.position >= wanted]
        return (before[-1] if before else None), (behind[0] if behind else None)


@pytest.fixture(autouse=True, scope="module")
def short():
    """Logs of a hundred offsets are halved as those of a million are."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(halving, "_NEAR", 2)
        yield


@given(LOGS, st.integers(0, 1000), st.sets(st.integers(0, 1100)), st.integers(1, 50), st.data())
def test_the_search_finds_what_a_walk_finds(entries, first, gone, batch, data):
    """Whatever markers, drops, merges, incarnations, backfills and compaction left of the log."""
    log = Log(first, entries, gone)
    wanted = Position(data.draw(st.integers(0, 3)), data.draw(st.integers(0, 400)))
    found = run_search(Search(wanted, log.first, log.end), log.window(batch, most=1000))
    assert not found.trouble
    assert (found.before, found.at) == log.oracle(wanted)
    assert log.looks <= 16
    if found.at is None:
        assert all(one.offset < log.end for one in log.flow if one.position < wanted)


@given(LOGS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), min_size=2, max_size=5), st.integers(1, 50))
def test_a_later_position_is_found_from_an_earlier_one(entries, positions, batch):
    """`continued_at` leaves nothing out and knows what came before."""
    log = Log(7, entries, set())
    search = None
    for wanted in sorted(Position(*one) for one in positions):
        start = Search(wanted, log.first, log.end) if search is None else search.continued_at(wanted, log.end)
        search = run_search(start, log.window(batch, most=1000))
        assert (search.before, search.at) == log.oracle(wanted)


@given(LOGS, st.lists(st.tuples(st.integers(0, 3), st.integers(0, 400)), min_size=2, max_size=5), st.integers(1, 50))
def test_what_was_read_for_one_position_serves_others(entries, positions, batch):
    """In whichever order they are asked for: never another answer."""
    log, windows = Log(7, entries, set()), []
    look = log.window(batch, most=1000)

    def kept(offsets):
        windows.append(look(offsets))
        return windows[-1]

    for wanted in (Position(*one) for one in positions):
        search = run_search(Search(wanted, log.first, log.end).narrowed_by(tuple(windows)), kept)
        assert (search.before, search.at) == log.oracle(wanted)


@given(LOGS, st.integers(0, 3), st.integers(0, 400), st.integers(1, 20), st.integers(1, 20))
def test_a_search_that_reads_too_far_in_vain_says_so(entries, incarnation, offset, batch, most):
    """It is either exact or in trouble, and never wrong."""
    log = Log(0, entries, set())
    found = run_search(Search(Position(incarnation, offset), 0, log.end), log.window(batch, most))
    assert found.trouble or (found.before, found.at) == log.oracle(found.wanted)


def test_few_looks_find_one_of_a_million():
    """Halving, and a batch at its end."""
    size = 1_000_000
    looks = []

    def look(offsets: OffsetRange) -> SearchWindow:
        looks.append(offsets)
        upto = min(offsets.end, offsets.start + 100)
        found = tuple(Placed(one, Position(0, one * 2)) for one in range(offsets.start, upto))
        return SearchWindow(offsets.start, upto, found)

    found = run_search(Search(Position(0, 1_234_567), 0, size), look)
    assert found.at == Placed(617_284, Position(0, 1_234_568))
    assert len(looks) < 25


def test_trouble_of_the_reader_is_kept():
    """Its words are the answer."""
    found = run_search(Search(Position(0, 5), 0, 10), lambda _: SearchWindow(5, 5, (), "the broker is away"))
    assert found.over
    assert found.trouble == "the broker is away"
