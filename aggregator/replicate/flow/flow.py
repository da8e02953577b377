"""This module defines the driver's plan of a flow, and the slot's state of it: how far the flow has come.

Invariant: the cursor is what the open transaction will commit. The committed cursor is what an abort returns to.
"""

from collections.abc import Iterator
from typing import NamedTuple

from aggregator.coordinates import EdgePartition, IncarnationRange, Position
from aggregator.kafka.native.chunk import Chunk
from aggregator.replicate.flow.cursor import Cursor, HoldReason
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.route import SEEK_OFFSETS, Route
from aggregator.replicate.flow.schema_fingerprints import Fingerprints
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord

# Kinds of gaps that lie within a log: it goes on behind them.
_DELETED = frozenset({GapKind.EXPIRED, GapKind.DAMAGED})


class FlowPlan(NamedTuple):
    """The driver's plan of one flow in an epoch; a tuple, because an epoch may open with 200,000 flows.

    Attributes:
        source: Edge partition.
        entry: Position and counters to go on from, under this epoch and slot.
        is_new_position: The entry is new (first start, new incarnation, a gap) and must be in the ledger before the
            first poll.
        central_topic: Central topic.
        by_key: Re-partition by the stripped key instead of keeping the partition number.
        limits: Limits of the central topic.
        until: Offset at which the flow is done, with `--drain`.
        skips_gaps: Whether a gap does not hold the flow (`on_gap: skip`).
        decision: Decision about the gap that a fresh entry passes, to be written with it.
        segments: Segments that a backfill delivers; a live flow has none and delivers everything from its entry on.
        unresolved_offsets: Offsets whose dead letter is not resolved yet: delivering one resolves it.
        replayed_offsets: Offsets that a person wants delivered, by their dead letters, whatever their chains say.
        backfill: Id of the backfill that owns the flow in the ledger of all backfills.
        fingerprints: Fingerprints of schema ids for any flow of the topic when the epoch opened.
        live_leader_epoch: Leader epoch of the live flow, which has passed everything that the backfill reads. Records
            with a higher epoch belong to a log that was truncated since.
    """

    source: EdgePartition
    entry: LedgerRecord
    is_new_position: bool
    central_topic: str
    by_key: bool
    limits: TopicLimits
    until: int | None = None
    skips_gaps: bool = False
    decision: GapDecision | None = None
    segments: tuple[IncarnationRange, ...] = ()
    unresolved_offsets: frozenset[int] = frozenset()
    replayed_offsets: frozenset[int] = frozenset()
    backfill: str = ""
    fingerprints: Fingerprints = ()
    live_leader_epoch: int | None = None

    @property
    def central_partition(self) -> int:
        """The central partition of its records; -1: the client decides by their keys."""
        return -1 if self.by_key else self.source.partition


class Flow:
    """The moving part of a flow within one run of a slot."""

    __slots__ = ("committed", "cursor", "persisted", "plan", "route")

    def __init__(self, plan: FlowPlan, committed: LedgerRecord, *, persisted: bool) -> None:
        self.plan = plan
        self.persisted = persisted
        self.route = Route(plan.segments) if plan.segments else None
        self.committed = self.cursor = Cursor.at(plan.source, committed)

    def rewind(self) -> None:
        """Rewind the cursor to the committed one."""
        self.cursor = self.committed

    def commit(self) -> None:
        """Make the cursor the committed one, because the transaction has committed."""
        self.committed = self.cursor = self.cursor.committed()

    def hold_until(self, reason: HoldReason, detail: str, retry_at_s: float) -> None:
        """Hold a flow of which no transaction holds records, and try it again later."""
        self.committed = self.cursor = self.cursor.with_hold_until(reason, detail, retry_at_s)

    def persist(self, now_s: float) -> None:
        """Note that the first position is in the ledger, and end the holds that waited for that."""
        self.persisted = True
        hold = self.cursor.hold
        if hold is not None and hold.reason is HoldReason.UNDECIDED:
            self.hold_until(hold.reason, hold.detail, now_s)

    def may_skip(self, lost: Gap) -> bool:
        """Whether a gap does not hold the flow; a backfill passes deleted records, but never goes back to a cut."""
        return self.plan.skips_gaps and (self.route is None or lost.kind in _DELETED)

    def skip(self, lost: Gap) -> None:
        """Continue behind a gap; the open transaction will record it."""
        self.cursor = self.cursor.with_skip(lost)
        self.advance(self.position.next_offset)

    def pieces(self, chunk: Chunk) -> Iterator[Chunk]:
        """The deliverable pieces of a chunk while the flow may be read; the cursor moves to each piece in turn.

        A flow that stands still before one piece also stands before the later ones.
        """
        if self.route is None:
            if self.is_readable:
                yield chunk
            return
        for position, piece in self.route.pieces(chunk, self.position.next_offset):
            if not self.is_readable:
                return
            known = self.cursor.entry.leader_epoch if chunk.leader_epoch is None else chunk.leader_epoch
            self.cursor = self.cursor.with_position(position, known)
            yield piece

    def advance(self, offset: int, leader_epoch: int | None = None) -> bool:
        """Move the cursor past everything before `offset`; return whether it leapt too far to read on from there.

        Args:
            offset: Offset below which the edge was read.
            leader_epoch: Leader epoch that no record before `offset` exceeds, if records were read.
        """
        entry = self.cursor.entry
        read = max(entry.next_offset, offset)
        known = leader_epoch if leader_epoch is not None and offset >= entry.next_offset else entry.leader_epoch
        position = self.route.position(read) if self.route else Position(entry.incarnation, read)
        if position.next_offset > read:
            known = None  # the records in between were not read
        if (position, known) != (entry.position, entry.leader_epoch):
            self.cursor = self.cursor.with_position(position, known)
        return position.next_offset - read > SEEK_OFFSETS

    @property
    def is_done(self) -> bool:
        """Whether a backfill has nothing left to read here."""
        return self.route is not None and self.cursor.entry.next_offset >= self.route.end

    @property
    def is_readable(self) -> bool:
        """Whether records of this flow may be taken now."""
        return self.cursor.is_readable and not self.is_done

    @property
    def has_changes(self) -> bool:
        """Whether the open transaction has something to write for this flow.

        A leader epoch that was found at the same position counts: without it nobody could see later that the log was
        cut.
        """
        entry, committed = self.cursor.entry, self.committed.entry
        if entry is committed:  # a shortcut, because every commit asks this of perhaps thousands of flows
            return False
        if entry.position != committed.position or entry.gap != committed.gap:
            return True
        return entry.leader_epoch != committed.leader_epoch

    @property
    def is_drained(self) -> bool:
        """Whether the flow has reached what `--drain` asked for."""
        return self.plan.until is None or self.cursor.entry.next_offset >= self.plan.until

    @property
    def position(self) -> Position:
        """The position of the flow in the open transaction."""
        return self.cursor.entry.position
