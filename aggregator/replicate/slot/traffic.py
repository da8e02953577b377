"""This module bounds what a slot takes from its edges, and counts what it takes and what it gives to central.

Invariant: the slot never waits for an edge. If an edge's limit allows nothing now, that edge is held, and the others
continue. Written bytes count once their transaction has committed.
"""

from collections import Counter
from collections.abc import Collection

from aggregator.coordinates import HEARTBEATS
from aggregator.kafka.native.chunk import Chunk
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.ports import SlotPorts
from aggregator.replicate.slot.throttle import ByteThrottle, TokenBucket


class SlotTraffic:
    """The traffic of one slot in one epoch.

    Args:
        plan: The backfill's rate, and the share of each edge's limit.
        ports: Knows what its clients have received.
    """

    def __init__(self, plan: SlotPlan, ports: SlotPorts) -> None:
        now = ports.now()
        self._ports = ports
        self._throttle = TokenBucket(plan.terms.rate if plan.terms else None, now)
        self._limits = {edge: ByteThrottle(rate, now) for edge, rate in plan.rates.items()}
        self._limited: set[str] = set()
        self._open: Counter[str] = Counter()
        self._written: Counter[str] = Counter()

    def pace(self, rate: float | None) -> None:
        """Set another rate for the backfill."""
        self._throttle.set_rate(rate, self._ports.now())

    def available(self, edge: str, records: int) -> int:
        """Records that may be taken of an edge now."""
        now = self._ports.now()
        most = self._throttle.available(now, records)
        limit = self._limits.get(edge)
        if limit is None or not most:
            return most
        limit.count_received(self._ports.received(edge))
        allowed = limit.available(now, most)
        if not allowed:
            self._limited.add(edge)
        return allowed

    def count_read(self, edge: str, chunks: Collection[Chunk]) -> int:
        """Count what an edge gave; returns its records. Heartbeats are outside of every rate."""
        chunks = [chunk for chunk in chunks if chunk.topic != HEARTBEATS]
        records = sum(map(len, chunks))
        self._throttle.consume(records)
        if edge in self._limits:
            self._limits[edge].consume(records, sum(chunk.size for chunk in chunks))
        return records

    def is_limited(self, edge: str) -> bool:
        """Whether an edge has a limit: that more waits there is no reason to be quick."""
        return edge in self._limits

    @property
    def pending_bytes(self) -> int:
        """Count the bytes written in the open transaction."""
        return self._open.total()

    def count_written(self, edge: str, size: int) -> None:
        """Count bytes of an edge's records that went into the open transaction."""
        self._open[edge] += size

    def commit(self) -> None:
        """Count the bytes of the transaction as written, because it has committed."""
        self._written += self._open
        self._open.clear()

    def abort(self) -> None:
        """Discard the bytes counted for the aborted transaction."""
        self._open.clear()

    def figures(self) -> dict[str, object]:
        """What telemetry is to say: bytes written by edge, and which edges' limits held something back since then."""
        limited, self._limited = sorted(self._limited), set()
        return {"written": dict(self._written), "limited": limited}
