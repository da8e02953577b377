"""Searches one central partition for a flow's position; a flow's records are there in the order of its edge.

Invariant: pure. Offsets below `low` hold no record at or behind the wanted position, and `before` is the flow's last
record among them. Offsets from `high` up to `at` hold no record of the flow. The offsets in between have not been read.
Some offsets hold no record of the flow: markers, aborted records, records of other flows, and compacted records.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from aggregator.coordinates import OffsetRange, Position

# A range this small is read from its beginning: halving it would cost more requests than it saves records.
_NEAR = 256


class Placed(NamedTuple):
    """A record of the flow: its central offset, and its own position at the edge."""

    offset: int
    position: Position


class SearchWindow(NamedTuple):
    """The part of a partition that was read.

    Attributes:
        start: First offset.
        until: Everything before it was seen.
        found: The flow's records in it, in order; not those that a backfill wrote.
        trouble: Why reading ended before a record was found; empty: it did not.
    """

    start: int
    until: int
    found: tuple[Placed, ...] = ()
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Search:
    """The state of a search: which central offsets may still hold the wanted position.

    Attributes:
        wanted: Edge position.
        low: First offset that is not known to lie before it.
        high: Offset behind the last one that is still to be looked at.
        before: The flow's last record that is known to lie before the wanted position.
        at: The first one that is known to lie at it or behind it; None: there is none.
        trouble: Why the search ended without an answer.
    """

    wanted: Position
    low: int
    high: int
    before: Placed | None = None
    at: Placed | None = None
    trouble: str = ""

    @property
    def over(self) -> bool:
        """Whether nothing is left to look at, or to be found that way."""
        return self.low >= self.high or bool(self.trouble)

    @property
    def probe(self) -> OffsetRange:
        """The range to read next, from its start until a record of the flow is found."""
        span = self.high - self.low
        return OffsetRange(self.low if span <= _NEAR else self.low + span // 2, self.high)

    def narrowed(self, seen: SearchWindow) -> "Search":
        """The search after a look at the range of `probe`.

        Args:
            seen: From the probe's start, up to its first record of the flow at least.
        """
        if not seen.found:
            if seen.until < self.high:
                return replace(self, trouble=seen.trouble or f"nothing of the flow from {seen.start} to {seen.until}")
            return replace(self, high=seen.start)
        place = next((n for n, one in enumerate(seen.found) if one.position >= self.wanted), None)
        if place is None:
            return replace(self, low=max(self.low, seen.until), before=seen.found[-1])
        if place == 0:
            return replace(self, high=seen.start, at=seen.found[0])
        at = seen.found[place]
        return replace(self, low=at.offset, high=at.offset, before=seen.found[place - 1], at=at)

    def narrowed_by(self, windows: Iterable[SearchWindow]) -> "Search":
        """The search after looks for other positions of the same flow, whether or not `probe` named their
        ranges.

        Args:
            windows: What was read for them, in any order.
        """
        search = self
        for seen in windows:
            if not search.over and seen.found and seen.until > search.low:
                search = search.narrowed(seen)
        return search

    def continued_at(self, wanted: Position, high: int) -> "Search":
        """The search for a later position of the same flow; it begins at the end of this search.

        Args:
            wanted: No earlier than this one's.
            high: Offset behind the last one to be looked at.
        """
        return Search(wanted, self.low if self.at is None else self.at.offset, high, before=self.before)


def run_search(search: Search, look: Callable[[OffsetRange], SearchWindow]) -> Search:
    """Narrow a search until it is over.

    Args:
        search: The search to go on with.
        look: Reads a range of the partition until a record of the flow is found.
    """
    while not search.over:
        search = search.narrowed(look(search.probe))
    return search
