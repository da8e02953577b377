"""Gaps as central keeps them: offsets of a flow that its edge no longer has, and a decision to go on without them.

Invariant: a decision names one flow at one position, so that it can only ever let pass what was there to be decided;
an end of None is a tail that nobody knows. An open gap lies in its flow's ledger record, a decision in `H.requests`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Self

from aggregator.coordinates import EdgePartition, Position


class GapKind(StrEnum):
    """How an edge came to lack an offset."""

    TRUNCATED = "truncated"
    SHRUNK = "shrunk"
    DELETED = "deleted"
    RECREATED = "recreated"
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class Gap:
    """Offsets [start, end) that can not be read; `end` None: nobody knows how far it went.

    Attributes:
        kind: `truncated`: the log's start overtook the position, by retention or a deletion of records; `shrunk`: the
            log ends before the position, at `start`; `deleted`: the topic is gone; `recreated`: another topic of the
            name took its place; `damaged`: a batch is there, and this client can not turn it into records.
        start: First offset of it.
        end: Offset behind it.
        since_ms: When it was first noticed, by the clock of whoever noticed it.
    """

    kind: GapKind
    start: int
    end: int | None
    since_ms: int

    @classmethod
    def of(cls, body: dict[str, Any]) -> Self:
        """Read what `asdict` made of one.

        Raises:
            KeyError, TypeError, ValueError: it is not one.
        """
        return cls(GapKind(body["kind"]), int(body["start"]), body["end"], int(body["since_ms"]))

    def __str__(self) -> str:
        return f"[{self.start}, {'unknown' if self.end is None else self.end})"


@dataclass(frozen=True, slots=True)
class Decision:
    """A flow may go on without the offsets of exactly this gap.

    Attributes:
        source: The flow.
        position: Where the flow stood: the decision holds for this position only.
        gap: What was decided about.
        by: Who decided: a person, or the hub by a rule.
        at_ms: When.
        reason: Why.
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
        return f"gap/{self.gap.kind}/{self.source}/{self.position.incarnation}/{self.gap.start}/{end}"
