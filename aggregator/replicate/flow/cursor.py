"""The cursor: all that a flow knows and has done since its last commit, in one value.

Invariant: frozen and pure. An abort puts the committed cursor back, so that nothing outlives the transaction in which
it was found: no gap, no hold, no count. No record before the position has a higher leader epoch than the cursor's,
which is None where nobody has read what lies before.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple, Self

from msgspec import Struct, structs

from aggregator.coordinates import EdgePartition, Position
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import Start
from aggregator.replicate.flow.gaps import after, grown, passed_over, sentence, skipped
from aggregator.replicate.flow.meanings import Meanings
from aggregator.state.gap import Decision, Gap, GapKind
from aggregator.state.ledger import LedgerRecord


class HoldReason(StrEnum):
    """Why a flow stands still; metrics count by these words."""

    GAP = "gap"
    POLICY = "policy"
    RETENTION = "retention"
    RECREATED = "recreated"
    REFUSED = "refused"
    CENTRAL = "central"
    WAITING = "waiting"
    LAKE = "lake"
    DISCOVERY = "discovery"
    UNDECIDED = "undecided"
    CLUSTER = "cluster"
    MIRRORMAKER = "mirrormaker"


@dataclass(frozen=True, slots=True)
class Hold:
    """Why a flow stands still; `gap` is what the edge no longer has, or nobody can read, if that is the reason."""

    source: EdgePartition
    reason: HoldReason
    detail: str
    gap: Gap | None = None


class Waiting(NamedTuple):
    """What a flow waits for.

    Attributes:
        since_s: Since when, over all tries.
        retry_at_s: When it is tried again; None: it is being tried.
        why: What did not answer.
    """

    since_s: float
    retry_at_s: float | None
    why: str


class Cursor(Struct, frozen=True):
    """Where the open transaction stands with one flow.

    Attributes:
        source: The flow.
        entry: The ledger record that the transaction commits.
        decisions: What it goes on without, to be written beside the record.
        hold: Why no record may be taken.
        waiting: Why none may be taken for a while; beside a hold: when that is tried again.
    """

    source: EdgePartition
    entry: LedgerRecord
    decisions: tuple[Decision, ...] = ()
    hold: Hold | None = None
    waiting: Waiting | None = None

    @classmethod
    def at(cls, source: EdgePartition, entry: LedgerRecord) -> Self:
        """Where a ledger record puts a flow; one with an open gap stands still, unless that is to be tried again."""
        cursor = cls(source, entry)
        return cursor if entry.gap is None or entry.gap.kind is GapKind.DAMAGED else cursor.held_by(entry.gap)

    @property
    def start(self) -> Start:
        """Where a reader starts."""
        return Start(self.entry.next_offset, self.entry.leader_epoch)

    @property
    def reading(self) -> bool:
        """Whether records may be taken now."""
        return self.hold is None and (self.waiting is None or self.waiting.retry_at_s is None)

    def moved(self, position: Position, leader_epoch: int | None) -> Self:
        """The same cursor at another position."""
        incarnation, next_offset = position
        entry = structs.replace(
            self.entry, incarnation=incarnation, next_offset=next_offset, leader_epoch=leader_epoch, gap=None
        )
        return structs.replace(self, entry=entry)

    def past(self, chunk: Chunk, *, dead: int, suppressed: int, stripped: int, schemas: Meanings) -> Self:
        """Behind the records of a chunk, which the transaction holds now."""
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

    def having_sealed(self, counts: Mapping[str, int]) -> Self:
        """With so many more values in envelopes, by key and version."""
        if not counts:
            return self
        sealed = Counter(dict(self.entry.sealed)) + Counter(counts)
        return structs.replace(self, entry=structs.replace(self.entry, sealed=tuple(sorted(sealed.items()))))

    def returned(self, *, cycles: int, forged: int) -> Self:
        """With so many more records that were the hub's own, or claimed to be."""
        if not cycles and not forged:
            return self
        entry = self.entry
        entry = structs.replace(entry, cycles=entry.cycles + cycles, forged=entry.forged + forged)
        return structs.replace(self, entry=entry)

    def held_by(self, lost: Gap) -> Self:
        """Held until somebody decides about a gap, which the ledger will show."""
        hold = Hold(self.source, HoldReason.GAP, sentence(lost, self.entry.next_offset), lost)
        return structs.replace(self, entry=structs.replace(self.entry, gap=lost), hold=hold, waiting=None)

    def held(self, reason: HoldReason, detail: str) -> Self:
        """Held until the epoch ends."""
        return structs.replace(self, hold=Hold(self.source, reason, detail), waiting=None)

    def held_until(self, reason: HoldReason, detail: str, retry_at_s: float) -> Self:
        """Held, and tried again then; a gap holds until somebody decides, whatever else is in the way."""
        if self.hold is not None and self.hold.reason is HoldReason.GAP:
            return self
        return self.held(reason, detail).waits(Waiting(retry_at_s, retry_at_s, detail))

    def tried(self) -> Self:
        """What has waited, or was held until now, is tried again."""
        return structs.replace(self, hold=None, waiting=self.waiting and self.waiting._replace(retry_at_s=None))

    def without(self, lost: Gap) -> Self:
        """Behind a gap that the flow's rule skips; the decision is recorded."""
        position = self.entry.position
        decision = skipped(self.source, position, lost, now_ms=lost.since_ms)
        entry = structs.replace(self.entry, unread=grown(self.entry.unread, passed_over(lost, position)))
        passed = structs.replace(self, entry=entry, decisions=(*self.decisions, decision))
        return passed.moved(after(lost, position), entry.leader_epoch)

    def known(self, leader_epoch: int, upto: int = 0) -> Self:
        """The log before the position was found to be whole: nothing there has a higher leader epoch than this.

        Args:
            leader_epoch: Under another one than before there may be something else behind the position than a damaged
                batch that was met.
            upto: Where what the one before bounds ends at least: such a batch that lies before that is still there.
        """
        met = self.entry.gap
        same = leader_epoch == self.entry.leader_epoch or (met is not None and met.end is not None and met.end <= upto)
        gap = met if same else None
        return structs.replace(self, entry=structs.replace(self.entry, leader_epoch=leader_epoch, gap=gap))

    def waits(self, waiting: Waiting | None) -> Self:
        """Tried again later, or now; None: it waits for nothing."""
        return self if waiting == self.waiting else structs.replace(self, waiting=waiting)

    def committed(self) -> Self:
        """The same, once its transaction is committed."""
        return structs.replace(self, decisions=())
