"""Flows: what a slot is told of each edge partition, and how far it has come.

Invariant: the cursor is what the open transaction will commit; the committed entry is where an abort goes back to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from msgspec import structs

from aggregator.coordinates import EdgePartition, Position, Segment
from aggregator.kafka.chunk import Chunk
from aggregator.kafka.gap import Decision, Gap, GapKind
from aggregator.kafka.ledger import LedgerRecord
from aggregator.replicate.gaps import after, grown, passed_over, sentence, skipped
from aggregator.replicate.limits import Limits
from aggregator.replicate.route import LEAP_OFFSETS, Route


class FlowPlan(NamedTuple):
    """One flow of an epoch, decided by the driver; a tuple, because an epoch may open with 200,000 of them.

    Attributes:
        source: Edge partition.
        entry: Position and counters to go on from, under this epoch and slot.
        fresh: The entry is new (first start, new incarnation, a gap) and must be in the ledger before the first poll.
        central: Central topic.
        by_key: Re-partition by the stripped key instead of keeping the partition number.
        limits: What the central topic takes.
        until: With `--drain`: the offset at which the flow is done.
        skips: A gap does not hold the flow (`on_gap: skip`).
        decision: What a fresh entry goes on without, to be written with it.
        segments: What a backfill delivers; a live flow has none and delivers everything from its entry on.
        letters: Offsets whose dead letter is not resolved yet: delivering one resolves it.
        backfill: Whose flow it is in the ledger of all backfills.
    """

    source: EdgePartition
    entry: LedgerRecord
    fresh: bool
    central: str
    by_key: bool
    limits: Limits
    until: int | None = None
    skips: bool = False
    decision: Decision | None = None
    segments: tuple[Segment, ...] = ()
    letters: frozenset[int] = frozenset()
    backfill: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a flow stands still; `gap` is what the edge no longer has, if that is the reason."""

    source: EdgePartition
    reason: str
    detail: str
    gap: Gap | None = None


class Flow:
    """The moving part of a flow within one run of a slot."""

    __slots__ = (
        "committed",
        "counts",
        "decisions",
        "gap",
        "held",
        "incarnation",
        "leader_epoch",
        "next_offset",
        "persisted",
        "plan",
        "retry_at",
        "route",
        "trouble",
        "unread",
        "waiting_since",
    )

    def __init__(self, plan: FlowPlan, committed: LedgerRecord, *, persisted: bool) -> None:
        self.plan = plan
        self.committed = committed
        self.persisted = persisted
        self.held: Hold | None = None
        self.gap: Gap | None = None
        self.retry_at: float | None = None
        self.waiting_since: float | None = None
        self.trouble = ""  # what it waits for
        self.route = Route(plan.segments) if plan.segments else None
        self.rewind()
        if committed.gap is not None:
            self.stand_still(committed.gap)

    def rewind(self) -> None:
        """Go back to what is committed."""
        self.incarnation, self.next_offset = self.committed.position
        self.leader_epoch = self.committed.leader_epoch
        self.unread = self.committed.unread
        self.decisions: list[Decision] = []
        self.counts = [
            self.committed.delivered,
            self.committed.dead,
            self.committed.suppressed,
            self.committed.stripped,
        ]

    def stand_still(self, lost: Gap) -> None:
        """Hold the flow until somebody decides about the gap, which the ledger will show."""
        self.gap = lost
        self.held = Hold(self.plan.source, "gap", sentence(lost, self.next_offset), lost)

    def may_skip(self, lost: Gap) -> bool:
        """Whether a gap holds nothing; a backfill goes on without what was deleted, but never back to a cut."""
        return self.plan.skips and (self.route is None or lost.kind is GapKind.TRUNCATED)

    def skip(self, lost: Gap) -> None:
        """Go on behind a gap; the open transaction will say so."""
        self.decisions.append(skipped(self.plan.source, self.position, lost, now_ms=lost.since_ms))
        self.unread = grown(self.unread, passed_over(lost, self.position))
        self.incarnation, self.next_offset = after(lost, self.position)
        self.reach(self.next_offset)
        self.leader_epoch = None

    def pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        """What is to be delivered of a chunk; the cursor stands at each piece when it comes."""
        if self.route is None:
            yield chunk
            return
        for position, piece in self.route.pieces(chunk, self.next_offset):
            self.incarnation, self.next_offset = position
            yield piece

    def reach(self, offset: int) -> bool:
        """Move the cursor on: nothing is left before `offset`. Whether it leapt too far to read on from there."""
        self.next_offset = max(self.next_offset, offset)
        if self.route is None:
            return False
        before = self.next_offset
        self.incarnation, self.next_offset = self.route.position(before)
        return self.next_offset - before > LEAP_OFFSETS

    @property
    def done(self) -> bool:
        """Whether a backfill has nothing left to read here."""
        return self.route is not None and self.next_offset >= self.route.end

    @property
    def reading(self) -> bool:
        """Whether records of this flow may be taken now."""
        return self.held is None and self.retry_at is None and not self.done

    @property
    def moved(self) -> bool:
        """Whether the open transaction has something to write for this flow."""
        committed = self.committed  # asked of each of perhaps thousands at every commit: no value is made for it
        return (
            self.next_offset != committed.next_offset
            or self.incarnation != committed.incarnation
            or self.gap != committed.gap
        )

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
        return structs.replace(
            self.committed,
            incarnation=self.incarnation,
            next_offset=self.next_offset,
            delivered=delivered,
            dead=dead,
            suppressed=suppressed,
            stripped=stripped,
            gap=self.gap,
            leader_epoch=self.leader_epoch,
            unread=self.unread,
        )
