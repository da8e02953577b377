"""A gap is a range of offsets that an edge no longer has for a flow; a decision lets the flow go on without them.

Invariant: a decision names one flow at one position, so it does not cover later gaps. An end of None means that the
length of the gap is unknown. An open gap lies in its flow's ledger record, and a decision lies in `H.requests`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from aggregator.coordinates import EdgePartition, Position


class GapKind(StrEnum):
    """The reason why an edge lacks an offset."""

    EXPIRED = "expired"
    TRUNCATED = "truncated"
    DELETED = "deleted"
    RECREATED = "recreated"
    DAMAGED = "damaged"

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        # Old records say `shrunk` for a truncated log, and `truncated` for an expired position.
        return cls("truncated") if value == "shrunk" else None


_ENDING = (GapKind.EXPIRED, GapKind.DAMAGED)


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) that cannot be read; an `end` of None means that the length is unknown.

    Attributes:
        kind: `expired`: the log's start overtook the position, by retention or a deletion of records; `truncated`: the
            log was cut before the position, at `start`; `deleted`: the topic is gone; `recreated`: another topic of the
            name took its place; `damaged`: a batch is there, and this client cannot turn it into records.
        start: First offset of it.
        end: Offset behind it.
        since_ms: When it was first noticed, by the clock of whoever noticed it.
        leader_epoch: Of a damaged batch, an upper bound of its leader epoch; a batch that takes its place has a higher
            one. None: the edge tells none, or an earlier version wrote this.
    """

    kind: GapKind
    start: int
    end: int | None
    since_ms: int
    leader_epoch: int | None = None

    def __post_init__(self) -> None:
        # A truncated log has no known end. So a gap of this kind with an end is an expired position in an old record.
        if self.kind is GapKind.TRUNCATED and self.end is not None:
            object.__setattr__(self, "kind", GapKind.EXPIRED)

    @property
    def is_whole(self) -> bool:
        """Whether the gap has an end, if its kind has one."""
        return self.end is not None or self.kind not in _ENDING

    def is_of(self, position: Position) -> bool:
        """Whether a flow at this position can have it. Within an incarnation no flow goes back behind a gap."""
        if self.kind in _ENDING:
            return self.start == position.next_offset and self.end is not None and self.start < self.end
        return self.end is None and (self.kind is not GapKind.TRUNCATED or self.start <= position.next_offset)

    def __str__(self) -> str:
        return f"[{self.start}, {'unknown' if self.end is None else self.end})"


@dataclass(frozen=True, slots=True)
class GapDecision:
    """Allows a flow to go on without the offsets of exactly this gap.

    Attributes:
        source: The flow.
        position: Position of the flow; the decision holds for this position only.
        gap: Gap that was decided about.
        by: Author of the decision: a person, or the hub by a rule.
        at_ms: Time of the decision.
        reason: Reason for the decision.
        automatic: Decided by a rule (`on_gap: skip`, a recreated topic) instead of a person.
    """

    source: EdgePartition
    position: Position
    gap: Gap
    by: str
    at_ms: int
    reason: str
    automatic: bool = False

    @property
    def key(self) -> str:
        """One record per gap, so that deciding twice is deciding once."""
        end = "unknown" if self.gap.end is None else self.gap.end
        of = "" if self.gap.leader_epoch is None else f"/{self.gap.leader_epoch}"
        return f"gap/{self.gap.kind}/{self.source}/{self.position.incarnation}/{self.gap.start}/{end}{of}"
