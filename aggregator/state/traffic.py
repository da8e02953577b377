"""This module sums up the bytes of each edge from the slots' reports: the total since the watching began, and the rate.

Invariant: pure. A slot's counters begin at zero with each session, and the sessions are added up. Two sessions may
overlap. Bytes that were reported before the watching began do not count, so nothing is added twice to an earlier total.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import NamedTuple

# Reports that were in the topic before the watching began arrive within this time.
_OLD_S = 2.0
# The stretch over which a rate is measured; a client reports every ten seconds what it has received.
_OVER_S = 30.0
# A former session that was silent for this long is over: a slot reports every second, and a fenced slot soon ends.
_FORGOTTEN_S = 600.0
_MAX_SESSIONS = 1000
# The largest number that a record can hold.
MAX_COUNT = 2**63 - 1
Counters = Mapping[str, int]


class EdgeTraffic(NamedTuple):
    """Counts the bytes of one edge.

    Attributes:
        read_bytes: Received from it by the slots' readers, on the wire, since the watching began.
        written_bytes: Of its records, written to central in transactions that committed, before compression.
        read_per_s: Bytes a second over the last half minute; None where nobody knows yet.
        written_per_s: The same of what was written.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    read_per_s: float | None = None
    written_per_s: float | None = None


@dataclass(slots=True)
class _Series:
    """One cumulative number: its counted total, and its value at each moment when it changed.

    Its first moment is that of a change, too: a client tells every ten seconds, and what it had received by then is no
    rate over the seconds since the watching began.
    """

    total: int = 0
    past: deque[tuple[float, int]] = field(default_factory=deque)
    _seen: int = 0
    _has_grown: bool = False

    def add(self, counted: int, grown: int, at_s: float) -> None:
        self.total, self._seen = min(MAX_COUNT, self.total + counted), self._seen + grown
        if grown and not self._has_grown:
            self.past.clear()
        if grown or not self.past:
            self.past.append((at_s, self._seen))
        self._has_grown = self._has_grown or grown > 0
        while len(self.past) > 2 and at_s - self.past[1][0] >= _OVER_S:  # noqa: PLR2004 - a rate has two ends
            self.past.popleft()

    def per_s(self, now_s: float) -> float | None:
        (first_s, first), (last_s, last) = self.past[0], self.past[-1]
        if now_s - last_s > _OVER_S:
            return 0.0
        return (last - first) / (last_s - first_s) if last_s > first_s else None


class Traffic:
    """Takes the reports of slots, in order."""

    def __init__(self) -> None:
        self._began_s: float | None = None
        # The last counters by slot and session, the oldest report first.
        self._last: dict[tuple[int, str], tuple[float, Counters, Counters]] = {}
        self._newest: dict[int, str] = {}
        self._read: dict[str, _Series] = {}
        self._written: dict[str, _Series] = {}

    def ingest(
        self, slot: int, session: str, read: Counters, written: Counters, now_s: float, *, at_s: float | None = None
    ) -> None:
        """Take one slot's counters by edge; they began at zero with this session.

        Args:
            slot: Its number.
            session: Its session.
            read: Bytes by edge.
            written: Bytes by edge.
            now_s: When they were heard.
            at_s: When they were told, on the same clock, where that was earlier.
        """
        is_first = (slot, session) not in self._last
        self._began_s = now_s if self._began_s is None else self._began_s
        _, known_read, known_written = self._last.pop((slot, session), (now_s, {}, {}))
        self._last[slot, session] = now_s, read, written
        self._newest[slot] = session
        self._forget(now_s)
        is_old = now_s - self._began_s < _OLD_S
        for series, counts, known in ((self._read, read, known_read), (self._written, written, known_written)):
            for edge, count in counts.items():
                grown = max(0, count - known.get(edge, 0))
                # The time that an older session took for its first number is unknown, so that number gives no rate.
                told = 0 if is_old and is_first else grown
                series.setdefault(edge, _Series()).add(0 if is_old else grown, told, now_s if at_s is None else at_s)

    def _forget(self, now_s: float) -> None:
        """Drop sessions that have ended. The newest of a slot stays: central may not answer, so that it is silent."""
        for slot, session in list(takewhile(lambda one: now_s - self._last[one][0] > _FORGOTTEN_S, self._last)):
            if self._newest.get(slot) != session:
                del self._last[slot, session]
        while len(self._last) > _MAX_SESSIONS:  # no hub has more: another program writes these reports
            slot, session = next(iter(self._last))
            del self._last[slot, session]
            if self._newest.get(slot) == session:
                del self._newest[slot]

    def of(self, edge: str, now_s: float) -> EdgeTraffic:
        """What is known of an edge now."""
        read, written = self._read.get(edge), self._written.get(edge)
        return EdgeTraffic(
            read.total if read else 0,
            written.total if written else 0,
            read.per_s(now_s) if read else None,
            written.per_s(now_s) if written else None,
        )
