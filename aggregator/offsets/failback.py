"""Finds the offset at an edge where a group of central continues when its consumers move back to the edge.

Invariant: pure. Everything that the group has read of a flow at central lies before its position at the edge.
Everything that the hub has delivered or will deliver after that lies at the position or behind it. Records that were
dropped or became dead letters do not count, because the group never saw them.
"""

from typing import Any, NamedTuple

from aggregator.coordinates import EdgePartition, Partition, Position
from aggregator.offsets.search import SearchWindow
from aggregator.offsets.translation import Why, cut_before
from aggregator.state.ledger import LedgerRecord


class Failback(NamedTuple):
    """One flow that the group reads at central; names are the contract of `-o json`.

    Attributes:
        source: The edge partition.
        at: The central partition with the flow's records.
        central_offset: The next offset that the group reads there.
        edge_offset: The next offset to read at the edge; None: see `why`.
        why: Reason why there is no edge offset; None: there is one.
        detail: The same in words.
    """

    source: EdgePartition
    at: Partition
    central_offset: int
    edge_offset: int | None = None
    why: Why | None = None
    detail: str = ""

    def refused(self, why: Why, detail: str) -> "Failback":
        """The way back without a position at the edge, and why."""
        return self._replace(edge_offset=None, why=why, detail=detail)

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a way back."""
        return {
            "topic": self.source.topic,
            "partition": self.source.partition,
            "edge_offset": self.edge_offset,
            "central_topic": self.at[0],
            "central_partition": self.at[1],
            "central_offset": self.central_offset,
            "reason": self.why and self.why.value,
            "detail": self.detail,
        }


def failback(asked: Failback, seen: SearchWindow, entry: LedgerRecord, *, end: int, decided: bool) -> Failback:
    """The edge position, from the records that follow the group's position at central.

    Args:
        asked: The flow without an edge position yet.
        seen: From there on, up to the flow's first record, or to `end`.
        entry: The flow in the ledger, as it was before `end` was asked for.
        end: Central's last stable offset.
        decided: Everything that central had when the ledger was read lies before it.
    """
    if seen.found:
        position = seen.found[0].position
        if position.incarnation != entry.incarnation:
            return asked.refused(
                Why.RECREATED, "the edge's log was made anew since, or cut: begin at its start, or decide by hand"
            )
        return _placed(asked, position, entry)
    if seen.until < end or seen.trouble:
        trouble = seen.trouble or f"read up to {seen.until} of {end}"
        return asked.refused(Why.UNREAD, f"{asked.at[0]}-{asked.at[1]} at central: {trouble}")
    if not decided:
        return asked.refused(Why.UNDECIDED, f"an open transaction hides what lies behind offset {end}; ask again")
    return _placed(asked, entry.position, entry)


def _placed(asked: Failback, position: Position, entry: LedgerRecord) -> Failback:
    cut = cut_before(position, entry)
    return asked.refused(Why.GAP, cut) if cut else asked._replace(edge_offset=position.next_offset)
