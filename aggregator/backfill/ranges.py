"""Computes with offset ranges: intersection, union and difference.

Invariant: pure. Whatever ranges come in, results are ascending, do not touch, and hold no empty range.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from aggregator.coordinates import IncarnationRange, OffsetRange

Ranges = tuple[OffsetRange, ...]


def union(ranges: Iterable[OffsetRange]) -> Ranges:
    """Any ranges, in order and joined where they touch."""
    found: list[OffsetRange] = []
    for start, end in sorted(one for one in ranges if one.start < one.end):
        if found and start <= found[-1].end:
            found[-1] = OffsetRange(found[-1].start, max(found[-1].end, end))
        else:
            found.append(OffsetRange(start, end))
    return tuple(found)


def intersection(left: Iterable[OffsetRange], right: Iterable[OffsetRange]) -> Ranges:
    """The intersection of two sets of offset ranges."""
    ours, theirs, found = union(left), union(right), []
    index = 0
    for start, end in ours:
        while index < len(theirs) and theirs[index].end <= start:
            index += 1
        at = index
        while at < len(theirs) and theirs[at].start < end:
            found.append(OffsetRange(max(start, theirs[at].start), min(end, theirs[at].end)))
            at += 1
    return tuple(found)


def difference(left: Iterable[OffsetRange], right: Iterable[OffsetRange]) -> Ranges:
    """The offsets of `left` that are not in `right`."""
    theirs, found = union(right), []
    index = 0
    for start, end in union(left):
        cursor = start
        while index < len(theirs) and theirs[index].end <= start:
            index += 1
        at = index
        while at < len(theirs) and theirs[at].start < end:
            if theirs[at].start > cursor:
                found.append(OffsetRange(cursor, theirs[at].start))
            cursor = max(cursor, theirs[at].end)
            at += 1
        if cursor < end:
            found.append(OffsetRange(cursor, end))
    return tuple(found)


def offset_count(ranges: Iterable[OffsetRange]) -> int:
    """Offsets in ranges that do not overlap."""
    return sum(map(len, ranges))


def holds(ranges: Ranges, offset: int) -> bool:
    """Whether an offset lies in ranges that are ascending and do not overlap."""
    at = bisect_right(ranges, offset, key=lambda one: one.start)
    return at > 0 and offset < ranges[at - 1].end


def split(segments: Iterable[IncarnationRange], ranges: Iterable[OffsetRange]) -> tuple[IncarnationRange, ...]:
    """The wanted ranges, each offset under its incarnation.

    Args:
        segments: Segments that tell the incarnation of each offset, in ascending order.
        ranges: The wanted ranges.
    """
    wanted = union(ranges)
    return tuple(IncarnationRange(at, part) for at, offsets in segments for part in intersection([offsets], wanted))


def offsets_of(segments: Iterable[IncarnationRange]) -> Ranges:
    """The union of the offset ranges of some segments."""
    return union(one.offsets for one in segments)


def by_incarnation(parts: Iterable[IncarnationRange]) -> dict[int, Ranges]:
    """The union of the offset ranges of each incarnation."""
    found: dict[int, list[OffsetRange]] = defaultdict(list)
    for at, offsets in parts:
        found[at].append(offsets)
    return {at: union(ranges) for at, ranges in found.items()}
