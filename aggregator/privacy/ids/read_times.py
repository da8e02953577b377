"""Remembers when the records of a partition were first read, for records that wait and are read again.

Invariant: the time of a record is never earlier than its first read. Pure: the present time is an argument.
"""

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import NamedTuple

# The most marks of one partition. A record that was read between two marks has the time of the later one.
_MAX_MARKS = 8


class _Mark(NamedTuple):
    """The records before `end` had been read by then."""

    end: int
    at_s: float


class ReadTimes:
    """The read times of one topic's partitions, and of the current batch."""

    def __init__(self) -> None:
        self._marks: dict[Hashable, list[_Mark]] = {}
        self.begin(None, (), 0.0)

    def begin(self, source_partition: Hashable, offsets: Sequence[int], now_s: float) -> None:
        """Begin a new batch.

        Args:
            source_partition: The partition that it was read from.
            offsets: Offsets of its records there, ascending; empty: they come from no partition.
            now_s: The present, in seconds.
        """
        self._source_partition, self._offsets, self._now_s = source_partition, offsets, now_s
        marks = self._marks.get(source_partition, []) if len(offsets) else []
        # Each pair is a place and a time: records at earlier places had been read at that time.
        self._places = [(place, at_s) for end, at_s in marks if (place := bisect_left(offsets, end))]
        if len(offsets) and (not marks or offsets[-1] >= marks[-1].end):
            self._marks[source_partition] = [*marks[: _MAX_MARKS - 1], _Mark(offsets[-1] + 1, now_s)]

    def at_s(self, place: int) -> float:
        """The time at which the record at a place of the batch was read."""
        return next((at_s for end, at_s in self._places if place < end), self._now_s)

    def newer(self, asked_s: float) -> int | None:
        """The place of the first record that was read after a time; None: all were read by then."""
        if asked_s >= self._now_s:
            return None
        place = max((end for end, at_s in self._places if at_s <= asked_s), default=0)
        return place if place < len(self._offsets) or not len(self._offsets) else None

    def passed(self) -> None:
        """Forget the batch, because it is not read again."""
        if self._source_partition in self._marks and len(self._offsets):
            left = [mark for mark in self._marks.pop(self._source_partition) if mark.end > self._offsets[-1] + 1]
            if left:
                self._marks[self._source_partition] = left
