"""Counts for an audit which offsets of one edge partition were seen at the edge, at central, and in the lake.

Invariant: pure, and bounded: a few bytes per offset of the range, whatever the range holds. Differences are named by
their exact offsets. A count that is too high for its byte stays at the maximum.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange

Offsets = NDArray[np.int64]
Marks = NDArray[np.bool_]
Counts = NDArray[np.uint8]
Keys = NDArray[np.uint64]
_MOST = 255
_MODULUS = 1 << 128
# So many counts are converted to Python numbers at a time.
_AT_ONCE = 65_536


def ranges(marks: Marks, start: int) -> list[OffsetRange]:
    """The marked offsets as half-open ranges; the first mark is offset `start`."""
    steps = np.flatnonzero(np.diff(marks.astype(np.int8), prepend=0, append=0)) + start
    return [OffsetRange(int(left), int(right)) for left, right in zip(steps[::2], steps[1::2], strict=True)]


def ranges_of(offsets: Iterable[int]) -> list[OffsetRange]:
    """Group offsets into half-open ranges."""
    found: list[OffsetRange] = []
    for offset in sorted(set(offsets)):
        if found and found[-1].end == offset:
            found[-1] = OffsetRange(found[-1].start, offset + 1)
        else:
            found.append(OffsetRange(offset, offset + 1))
    return found


class Tally:
    """Counts what was seen of one segment, or of a window of it."""

    def __init__(self, segment: IncarnationRange) -> None:
        self.segment = segment
        length = len(segment.offsets)
        self.edge, self.central, self.lake, self.dead = (np.zeros(length, np.uint8) for _ in range(4))
        self.not_in_lake_yet = np.zeros(length, np.bool_)
        self.expired = np.zeros(length, np.bool_)
        self.deleted_elsewhere = np.zeros(length, np.bool_)  # central has tombstones under other versions of a key
        self.repeated = np.zeros(length, np.bool_)  # central has one of these tombstones twice
        self._further: set[tuple[int, int]] = set()
        self._deleted: list[tuple[Offsets, Keys]] = []

    def covers(self, incarnation: int, offset: int) -> bool:
        """Whether an offset is counted here."""
        return incarnation == self.segment.incarnation and offset in range(*self.segment.offsets)

    def count(self, counts: Counts, offsets: Offsets) -> None:
        """Add offsets, in any order and as often as they come, to one of the counts; others are passed over."""
        indexes, times = np.unique(self.indexes(offsets), return_counts=True)
        counts[indexes] = np.minimum(counts[indexes].astype(np.int64) + times, _MOST)

    def count_further_tombstone(self, offset: int, number: int) -> None:
        """Central has a further tombstone of a record; it is no copy of the record."""
        at = offset - self.segment.offsets.start
        self.deleted_elsewhere[at] = True
        self.repeated[at] |= (offset, number) in self._further
        self._further.add((offset, number))

    def delete(self, offsets: Offsets, keys: Keys) -> None:
        """The lake has tombstones of these offsets, whose keys these numbers tell apart."""
        start, end = self.segment.offsets
        here = (offsets >= start) & (offsets < end)
        self._deleted.append((offsets[here], keys[here]))

    def count_deleted(self) -> None:
        """Count the lake's tombstones: those of one record under several keys are one row, a key twice is two."""
        if not self._deleted:
            return
        offsets, keys = (np.concatenate(parts) for parts in zip(*self._deleted, strict=True))
        self._deleted.clear()
        pairs, times = np.unique(np.stack((offsets.astype(np.uint64), keys)), axis=1, return_counts=True)
        counts = np.zeros(len(self.lake), np.int64)
        np.maximum.at(counts, self.indexes(pairs[0].astype(np.int64)), times)
        self.lake[:] = np.minimum(self.lake + counts, _MOST)

    def indexes(self, offsets: Offsets) -> Offsets:
        """Indices of those offsets that lie in the segment."""
        start, end = self.segment.offsets
        return offsets[(offsets >= start) & (offsets < end)] - start


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """A difference that is not as it should be.

    Attributes:
        kind: `missing`, `doubled` or `unexplained`.
        place: `edge`, `central` or `lake`.
        incarnation: Incarnation of the records.
        offsets: Where, exactly; an end of None in `lost` is said in words.
        note: What else is known.
    """

    kind: str
    place: str
    incarnation: int
    offsets: tuple[OffsetRange, ...]
    note: str = ""

    @property
    def records(self) -> int:
        """Count the offsets that the finding names."""
        return sum(map(len, self.offsets))


@dataclass(slots=True)
class Sums:
    """Counts of origins, and hashes that do not depend on their order, added up over windows.

    A hash is the sum, modulo 2^128, of BLAKE2b-128 over `edge/topic/partition/offset/incarnation` of every record.
    """

    edge: int = 0
    dead: int = 0
    central: int = 0
    lake: int = 0
    expired: int = 0
    compacted: int = 0
    not_in_lake_yet: int = 0
    never_read: int = 0
    restated: int = 0
    hashes: dict[str, int] = field(default_factory=lambda: {"edge": 0, "central": 0, "lake": 0})

    def add(self, source: EdgePartition, tally: Tally) -> None:
        """Count a window; the edge's hash is that of what is due at central: without dead letters."""
        due = (tally.edge > 0) & (tally.dead == 0)
        self.edge += int(np.count_nonzero(tally.edge))
        self.dead += int(np.count_nonzero(tally.dead))
        self.central += int(tally.central.sum(dtype=np.int64))
        self.lake += int(tally.lake.sum(dtype=np.int64))
        self.not_in_lake_yet += int(np.count_nonzero(tally.not_in_lake_yet))
        start = tally.segment.offsets.start
        head = hashlib.blake2b(f"{source}/".encode(), digest_size=16)
        tail = f"/{tally.segment.incarnation}".encode()
        everywhere = edge = central = lake = 0
        for begin in range(0, len(due), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            counts = zip(due[part].tolist(), tally.central[part].tolist(), tally.lake[part].tolist(), strict=True)
            for offset, (is_due, copies, rows) in enumerate(counts, start + begin):
                if not (is_due or copies or rows):
                    continue
                one = head.copy()
                one.update(b"%d%b" % (offset, tail))
                number = int.from_bytes(one.digest(), "big")
                if is_due == copies == rows == 1:
                    everywhere += number
                else:
                    edge, central, lake = edge + number * is_due, central + number * copies, lake + number * rows
        for place, total in (("edge", edge), ("central", central), ("lake", lake)):
            self.hashes[place] = (self.hashes[place] + everywhere + total) % _MODULUS


@dataclass(frozen=True, slots=True)
class Rules:
    """Says which settings of a flow's topics explain absent records.

    Attributes:
        lake: The flow feeds a table.
        edge_compacts: The edge removes records that a later one of their key replaces.
        central_compacts: Central removes records that a later one of their key replaces.
    """

    lake: bool = False
    edge_compacts: bool = False
    central_compacts: bool = False


def compare(tally: Tally, rules: Rules) -> tuple[list[AuditFinding], Marks]:
    """Doubled records, unexplained ones, those missing in the lake, and the marks of those without a central
    copy.

    The marked records may still be suppressed. Suppressed records are known only by number: the caller weighs them.

    Returns:
        Findings, and the marks of what is absent at central, without what its retention explains.
    """
    edge, dead, central, lake = tally.edge > 0, tally.dead > 0, tally.central > 0, tally.lake > 0
    absent = edge & ~central & ~dead
    known = central | dead | tally.deleted_elsewhere
    unexplained = np.zeros_like(edge) if rules.edge_compacts else known & ~edge
    marks = {
        ("doubled", "central"): (tally.central > 1) | (central & dead) | tally.repeated,
        ("unexplained", "central"): unexplained,
    }
    if rules.lake:
        due = (central & ~tally.not_in_lake_yet) | (absent & tally.expired)
        marks["missing", "lake"] = due & ~lake
        marks["doubled", "lake"] = tally.lake > 1
        marks["unexplained", "lake"] = lake & ~central & (dead | (~edge & (not rules.edge_compacts)))
    found = [_finding(kind, place, tally.segment, marked) for (kind, place), marked in marks.items() if marked.any()]
    return found, absent & ~tally.expired


def marks_of(parts: Iterable[IncarnationRange], segment: IncarnationRange) -> Marks:
    """Which offsets of a segment lie in these parts."""
    marks = np.zeros(len(segment.offsets), np.bool_)
    for incarnation, (start, end) in parts:
        if incarnation == segment.incarnation:
            first = segment.offsets.start
            marks[max(0, start - first) : max(0, end - first)] = True
    return marks


def _finding(kind: str, place: str, segment: IncarnationRange, marks: Marks) -> AuditFinding:
    return AuditFinding(kind, place, segment.incarnation, tuple(ranges(marks, segment.offsets.start)))
