"""Computes how fast cumulative counters move, over the last few seconds and for each second.

Invariant: pure. A counter that went back (another ledger, a rewind) has no rate until it has moved on from its new
value.
"""

from collections import deque
from collections.abc import Mapping

from aggregator.coordinates import EdgePartition

_OVER_S = 10.0
_KEPT = 60


class Rates:
    """Computes rates from the delivered counters of all flows, which it takes about once a second."""

    def __init__(self) -> None:
        self._past: deque[tuple[float, dict[EdgePartition, int]]] = deque()
        self._edges: dict[str, deque[float]] = {}

    def ingest(self, counters: Mapping[EdgePartition, int], now_s: float) -> None:
        """Take the counters as they are now.

        Args:
            counters: Records delivered by each flow since the hub's first start.
            now_s: Seconds on a clock that only goes forward.
        """
        if self._past:
            before_s, before = self._past[-1]
            moved: dict[str, int] = {source.edge: 0 for source in counters}
            for source, count in counters.items():
                moved[source.edge] += max(0, count - before.get(source, count))
            for edge, records in moved.items():
                kept = self._edges.setdefault(edge, deque(maxlen=_KEPT))
                kept.append(records / max(1e-3, now_s - before_s))
        self._past.append((now_s, dict(counters)))
        while now_s - self._past[0][0] > _OVER_S and len(self._past) > 2:  # noqa: PLR2004 - a rate has two ends
            self._past.popleft()

    def flows(self) -> dict[EdgePartition, float]:
        """The records per second of each flow."""
        if len(self._past) < 2:  # noqa: PLR2004 - as above
            return {}
        (first_s, first), (last_s, last) = self._past[0], self._past[-1]
        spans_s = max(1e-3, last_s - first_s)
        return {source: max(0, count - first.get(source, count)) / spans_s for source, count in last.items()}

    def edges(self) -> dict[str, tuple[float, ...]]:
        """Records per second of each edge, second by second."""
        return {edge: tuple(kept) for edge, kept in self._edges.items()}
