"""Flows: what a slot is told of each edge partition, and how far it has come.

Invariant: the cursor is what the open transaction will commit; the committed entry is where an abort goes back to.
"""

from dataclasses import dataclass, replace

from aggregator.coordinates import EdgePartition, OffsetRange, Position
from aggregator.kafka.ledger import LedgerRecord


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """One flow of an epoch, decided by the driver.

    Attributes:
        source: Edge partition.
        entry: Position and counters to go on from, under this epoch and slot.
        fresh: The position is new (first start, new incarnation) and must be in the ledger before the first poll.
        central: Central topic.
        by_key: Re-partition by the stripped key instead of keeping the partition number.
        limit_bytes: Largest record that the central topic accepts.
        until: With `--drain`: the offset at which the flow is done.
    """

    source: EdgePartition
    entry: LedgerRecord
    fresh: bool
    central: str
    by_key: bool
    limit_bytes: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a flow stands still; `gap` is the exact range that the edge no longer has, if that is the reason.

    An end of -1 is an unknown tail: the edge's log is shorter than our position.
    """

    source: EdgePartition
    reason: str
    detail: str
    gap: OffsetRange | None = None


class Flow:
    """The moving part of a flow within one run of a slot."""

    __slots__ = (
        "committed",
        "counts",
        "held",
        "incarnation",
        "next_offset",
        "persisted",
        "plan",
        "retry_at",
        "waiting_since",
    )

    def __init__(self, plan: FlowPlan, committed: LedgerRecord, *, persisted: bool) -> None:
        self.plan = plan
        self.committed = committed
        self.persisted = persisted
        self.held: Hold | None = None
        self.retry_at: float | None = None
        self.waiting_since: float | None = None
        self.rewind()

    def rewind(self) -> None:
        """Go back to what is committed."""
        self.incarnation, self.next_offset = self.committed.position
        self.counts = [
            self.committed.delivered,
            self.committed.dead,
            self.committed.suppressed,
            self.committed.stripped,
        ]

    @property
    def reading(self) -> bool:
        """Whether records of this flow may be taken now."""
        return self.held is None and self.retry_at is None

    @property
    def moved(self) -> bool:
        """Whether the open transaction has something to write for this flow."""
        return self.next_offset != self.committed.next_offset

    @property
    def drained(self) -> bool:
        """Whether the flow has reached what `--drain` asked for."""
        return self.plan.until is None or self.next_offset >= self.plan.until

    @property
    def position(self) -> Position:
        """Where the open transaction stands."""
        return Position(self.incarnation, self.next_offset)

    def entry(self) -> LedgerRecord:
        """The ledger record that the open transaction commits."""
        delivered, dead, suppressed, stripped = self.counts
        return replace(
            self.committed,
            next_offset=self.next_offset,
            delivered=delivered,
            dead=dead,
            suppressed=suppressed,
            stripped=stripped,
        )
