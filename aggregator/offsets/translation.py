"""The translation of a group's position from an edge to central, or the reason why there is none.

The names here are the contract of `-o json`.
Invariant: pure. A position at central is exact: all records of the flow before the group's position lie before it, and
all others lie at it or behind it. If this cannot be established there is no position, but a reason.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, NamedTuple

from aggregator.coordinates import EdgePartition, Partition, Position
from aggregator.offsets.search import Placed, Search
from aggregator.state.gap import GapKind
from aggregator.state.ledger import LedgerRecord


class Why(StrEnum):
    """The reason why a position has no equivalent at central."""

    NOT_REPLICATED = "not_replicated"
    BY_KEY = "by_key"
    NOT_BEGUN = "not_begun"
    RECREATED = "recreated"
    GAP = "gap"
    COPIED = "copied"
    AHEAD = "ahead"
    MOVED = "moved"
    UNDECIDED = "undecided"
    UNREAD = "unread"


def cut_before(position: Position, entry: LedgerRecord) -> str:
    """Why a position is not in the edge's log: the log was cut before it; empty if it was not.

    Args:
        position: In the incarnation that its offset belongs to.
        entry: Where the flow stands.
    """
    cut = entry.gap
    if cut is None or cut.kind is not GapKind.TRUNCATED or position.next_offset <= cut.start:
        return ""
    return f"the log was cut at {cut.start}, and nobody has decided about it: aggregator gaps list"


class PositionQuery(NamedTuple):
    """A position of a group at an edge, to be searched for at central.

    Attributes:
        group: The group's name; empty: the position is the hub's own.
        source: The edge partition.
        position: At the edge, in the incarnation that its offset belongs to.
        at: The central partition with the flow's records.
        topic_id: Id of that central topic.
        former_topics: Central topics that earlier rules wrote the flow to.
    """

    group: str
    source: EdgePartition
    position: Position
    at: Partition
    topic_id: str
    former_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Translation:
    """Describes where a group's position in one edge partition is at central.

    Attributes:
        group: The group's name.
        source: The edge partition.
        edge_offset: What it has committed there: the next offset that it reads.
        topic: The central topic; None: the rules lead it nowhere.
        partition: The partition of the central topic.
        central_offset: The next offset to read there; None: see `why`.
        behind_records: Offsets of the edge that the hub delivers before it is where the group is; None: nobody knows.
        why: Why there is no central offset; None: there is one.
        detail: The same in words.
        before: The flow's last record before it, where one was met.
        topic_id: The id of the central topic.
    """

    group: str
    source: EdgePartition
    edge_offset: int
    topic: str | None = None
    partition: int | None = None
    central_offset: int | None = None
    behind_records: int | None = None
    why: Why | None = None
    detail: str = ""
    before: Placed | None = None
    topic_id: str = ""

    def refused(self, why: Why, detail: str) -> "Translation":
        """The translation without a position at central, and why."""
        return replace(self, central_offset=None, why=why, detail=detail)

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a translation."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "edge_offset": self.edge_offset,
            "central_topic": self.topic,
            "central_partition": self.partition,
            "central_offset": self.central_offset,
            "behind_records": self.behind_records,
            "reason": self.why and self.why.value,
            "detail": self.detail,
        }


def translated(asked: PositionQuery, found: Search, entry: LedgerRecord, *, end: int, decided: bool) -> Translation:
    """The translation that follows from a finished search.

    Args:
        asked: The position that was looked for.
        found: The search, at its end.
        entry: The flow in the ledger, as it was before `end` was asked for.
        end: Central's last stable offset, up to which was searched.
        decided: Everything that central had when the ledger was read lies before it.
    """
    (group, source, position, (topic, partition), topic_id, former_topics) = asked
    behind = max(0, position.next_offset - entry.next_offset) if position >= entry.position else 0
    made = Translation(
        group, source, position.next_offset, topic, partition, None, behind, before=found.before, topic_id=topic_id
    )
    if found.trouble:
        return made.refused(Why.UNREAD, f"{topic}-{partition} at central: {found.trouble}")
    if former_topics and found.before is None:
        return made.refused(
            Why.MOVED,
            f"earlier rules wrote it to {', '.join(former_topics)}, and {topic} has no record before this position",
        )
    if found.at is not None:
        return replace(made, central_offset=found.at.offset)
    if entry.position < position:
        return made.refused(Why.AHEAD, f"the hub has delivered up to {entry.next_offset}")
    if not decided:
        return made.refused(
            Why.UNDECIDED, f"an open transaction hides what {topic}-{partition} has behind offset {end}; ask again"
        )
    return replace(made, central_offset=end)


def refuse_if_moved(made: Translation, tp: Partition, found: Search) -> Translation:
    """A translation, after a look into a place to which earlier rules wrote the flow.

    Args:
        made: What today's central topic says.
        tp: The place.
        found: The search there, at its end.
    """
    topic, partition = tp
    if found.trouble:
        return made.refused(
            Why.UNREAD, f"{topic}-{partition} at central, where earlier rules wrote it: {found.trouble}"
        )
    if found.at is not None:
        return made.refused(Why.MOVED, f"earlier rules wrote to {topic} what comes at this position or behind it")
    return made
