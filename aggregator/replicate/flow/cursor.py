"""The cursor holds, in one value, all that a flow knows and has done since its last commit.

Invariant: frozen and pure. An abort restores the committed cursor, so no gap, hold or count outlives the transaction in
which it was found. No record before the position has a higher leader epoch than the cursor's. That leader epoch is None
if nobody has read the records before the position.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct, structs

from aggregator.coordinates import EdgePartition, Position
from aggregator.errors import HoldError
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.replicate.flow.gaps import passed_over, position_after, sentence, skipped, with_unread
from aggregator.replicate.flow.schema_fingerprints import Fingerprints
from aggregator.schema.registry import IncompatibleSchema
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord


class HoldReason(StrEnum):
    """The reason why a flow stands still; metrics count by these words."""

    GAP = "gap"
    POLICY = "policy"
    RETENTION = "retention"
    RECREATED = "recreated"
    REFUSED = "refused"
    INCOMPATIBLE = "incompatible"
    CENTRAL = "central"
    WAITING = "waiting"
    LAKE = "lake"
    DISCOVERY = "discovery"
    UNDECIDED = "undecided"
    CLUSTER = "cluster"
    MIRRORMAKER = "mirrormaker"

    @classmethod
    def of_refusal(cls, error: HoldError) -> "HoldReason":
        """The reason for a flow whose records could not be stripped or delivered."""
        return cls.INCOMPATIBLE if isinstance(error, IncompatibleSchema) else cls.REFUSED


@dataclass(frozen=True, slots=True)
class Hold:
    """A flow that stands still, and why; `gap` is set if its offsets are gone or cannot be read."""

    source: EdgePartition
    reason: HoldReason
    detail: str
    gap: Gap | None = None


class PendingRetry(NamedTuple):
    """Describes the wait of a flow.

    Attributes:
        since_s: Time at which the wait began, over all tries.
        retry_at_s: Time of the next try; None: a try is under way.
        why: Description of what did not answer.
    """

    since_s: float
    retry_at_s: float | None
    why: str


class Cursor(Struct, frozen=True):
    """The state of the open transaction with one flow.

    Attributes:
        source: The flow.
        entry: The ledger record that the transaction commits.
        decisions: Decisions about gaps that the flow passes, to be written beside the record.
        hold: Reason why no record may be taken.
        waiting: Pending retry of the flow. If the flow is also held: when the hold is retried.
    """

    source: EdgePartition
    entry: LedgerRecord
    decisions: tuple[GapDecision, ...] = ()
    hold: Hold | None = None
    waiting: PendingRetry | None = None

    @classmethod
    def at(cls, source: EdgePartition, entry: LedgerRecord) -> Self:
        """Make the cursor of a ledger record; a flow with an open gap is held, unless the gap shall be tried again."""
        cursor = cls(source, entry)
        return cursor if entry.gap is None or entry.gap.kind is GapKind.DAMAGED else cursor.with_gap(entry.gap)

    @property
    def start(self) -> StartPosition:
        """The start for a reader."""
        return StartPosition(self.entry.next_offset, self.entry.leader_epoch)

    @property
    def is_readable(self) -> bool:
        """Whether records may be taken now."""
        return self.hold is None and (self.waiting is None or self.waiting.retry_at_s is None)

    def with_position(self, position: Position, leader_epoch: int | None) -> Self:
        """The cursor at another position, without a gap."""
        incarnation, next_offset = position
        entry = structs.replace(
            self.entry, incarnation=incarnation, next_offset=next_offset, leader_epoch=leader_epoch, gap=None
        )
        return structs.replace(self, entry=entry)

    def with_chunk(self, chunk: Chunk, *, dead: int, suppressed: int, stripped: int, schemas: Fingerprints) -> Self:
        """The cursor behind the records of a chunk, which the transaction holds now."""
        entry = self.entry
        known = chunk.leader_epoch
        entry = structs.replace(
            entry,
            next_offset=chunk.offsets[-1] + 1,
            leader_epoch=entry.leader_epoch if known is None else known,
            delivered=entry.delivered + len(chunk) - dead - suppressed,
            dead=entry.dead + dead,
            suppressed=entry.suppressed + suppressed,
            stripped=entry.stripped + stripped,
            gap=None,
            schemas=schemas,
        )
        return structs.replace(self, entry=entry, waiting=None)

    def with_sealed(self, counts: Mapping[str, int]) -> Self:
        """The cursor with more values counted that AES-GCM sealed, by key and version."""
        if not counts:
            return self
        sealed = Counter(dict(self.entry.sealed)) + Counter(counts)
        return structs.replace(self, entry=structs.replace(self.entry, sealed=tuple(sorted(sealed.items()))))

    def with_cycles(self, *, cycles: int, forged: int) -> Self:
        """The cursor with more records counted that came back in a cycle, or falsely claimed to."""
        if not cycles and not forged:
            return self
        entry = self.entry
        entry = structs.replace(entry, cycles=entry.cycles + cycles, forged=entry.forged + forged)
        return structs.replace(self, entry=entry)

    def with_resolved(self, resolved: int) -> Self:
        """The cursor of a backfill's flow with more dead letters counted that it has resolved."""
        # A backfill that an earlier version began counts none, so that its count is never too low.
        if not resolved or self.entry.resolved is None:
            return self
        return structs.replace(self, entry=structs.replace(self.entry, resolved=self.entry.resolved + resolved))

    def with_gap(self, lost: Gap) -> Self:
        """The cursor on hold until somebody decides about a gap, which the ledger will show."""
        hold = Hold(self.source, HoldReason.GAP, sentence(lost, self.entry.next_offset), lost)
        return structs.replace(self, entry=structs.replace(self.entry, gap=lost), hold=hold, waiting=None)

    def with_hold(self, reason: HoldReason, detail: str) -> Self:
        """The cursor on hold until the epoch ends."""
        return structs.replace(self, hold=Hold(self.source, reason, detail), waiting=None)

    def with_hold_until(self, reason: HoldReason, detail: str, retry_at_s: float) -> Self:
        """The cursor on hold until a time; a gap keeps its hold until somebody decides."""
        if self.hold is not None and self.hold.reason is HoldReason.GAP:
            return self
        return self.with_hold(reason, detail).with_waiting(PendingRetry(retry_at_s, retry_at_s, detail))

    def with_retry(self) -> Self:
        """The cursor without its hold or wait, to be tried again."""
        return structs.replace(self, hold=None, waiting=self.waiting and self.waiting._replace(retry_at_s=None))

    def with_skip(self, lost: Gap) -> Self:
        """The cursor behind a gap that the flow's rule skips, with the decision to record."""
        position = self.entry.position
        decision = skipped(self.source, position, lost, now_ms=lost.since_ms)
        entry = structs.replace(self.entry, unread=with_unread(self.entry.unread, passed_over(lost, position)))
        passed = structs.replace(self, entry=entry, decisions=(*self.decisions, decision))
        return passed.with_position(position_after(lost, position), entry.leader_epoch)

    def with_leader_epoch(self, leader_epoch: int, upto: int = 0) -> Self:
        """The cursor with a leader epoch, once the log before its position was found to be whole.

        Args:
            leader_epoch: The log's leader epoch. If it differs from the previous one, records after the position may
                have been replaced, so a damaged batch that was met there no longer counts.
            upto: The records of the previous leader epoch reach at least this offset. A damaged batch below it is still
                there.
        """
        met = self.entry.gap
        same = leader_epoch == self.entry.leader_epoch or (met is not None and met.end is not None and met.end <= upto)
        gap = met if same else None
        return structs.replace(self, entry=structs.replace(self.entry, leader_epoch=leader_epoch, gap=gap))

    def with_waiting(self, waiting: PendingRetry | None) -> Self:
        """The cursor with a wait, or (None) without one."""
        return self if waiting == self.waiting else structs.replace(self, waiting=waiting)

    def committed(self) -> Self:
        """The cursor as it is once its transaction is committed."""
        return structs.replace(self, decisions=())
