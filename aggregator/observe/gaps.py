"""Lists gaps for people: the open ones of the ledger and the edges, and every decision that was ever made.

Invariant: this module only reads. A gap is listed once, under its present state. Decided gaps stay listed, because an
audit uses them as explanations.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from aggregator.coordinates import EdgePartition, Position
from aggregator.moments import iso
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord


class GapState(StrEnum):
    """Names the states of a gap."""

    OPEN = "open"
    REQUESTED = "requested"
    ACCEPTED = "accepted"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class KnownGap:
    """Describes one gap of a flow.

    Attributes:
        source: The edge partition of the flow.
        position: Where the flow stood, or stands.
        gap: The gap, with the offsets that are lost.
        state: `open`: the flow is held; `requested`: accepted, and the hub goes on when it runs; `accepted`: it went
            on; `skipped`: the hub went on by a rule.
        decision: Who let it pass, when and why.
        recorded: The hub has met it; else only this look has.
    """

    source: EdgePartition
    position: Position
    gap: Gap
    state: GapState
    decision: GapDecision | None = None
    recorded: bool = True

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a gap."""
        decision = self.decision
        return {
            "edge": self.source.edge,
            "topic": self.source.topic,
            "partition": self.source.partition,
            "incarnation": self.position.incarnation,
            "from": self.gap.start,
            "to": self.gap.end,
            "kind": self.gap.kind.value,
            "since": iso(self.gap.since_ms) if self.recorded else None,  # each look would say another moment
            "state": self.state.value,
            "by": decision.by if decision else None,
            "at": iso(decision.at_ms) if decision else None,
            "reason": decision.reason if decision else None,
        }


def known_gaps(
    ledger: Mapping[EdgePartition, LedgerRecord],
    gaps: Mapping[EdgePartition, Gap],
    decisions: Collection[GapDecision],
) -> tuple[KnownGap, ...]:
    """Every gap, decided or open, in order.

    Args:
        ledger: The winning ledger records.
        gaps: Gaps of flows as they are now, without regard to decisions.
        decisions: All decisions that were made.
    """
    decided = [KnownGap(one.source, one.position, one.gap, _state(one, ledger), one) for one in decisions]
    passed = {(one.source, one.position, one.gap.kind, one.gap.end, one.gap.leader_epoch) for one in decisions}
    still = [
        KnownGap(source, ledger[source].position, lost, GapState.OPEN, recorded=ledger[source].gap is not None)
        for source, lost in gaps.items()
        if (source, ledger[source].position, lost.kind, lost.end, lost.leader_epoch) not in passed
    ]
    return tuple(sorted((*decided, *still), key=lambda one: (one.source, one.position, one.gap.since_ms)))


def _state(decision: GapDecision, ledger: Mapping[EdgePartition, LedgerRecord]) -> GapState:
    if decision.automatic:
        return GapState.SKIPPED
    entry = ledger.get(decision.source)
    waits = entry is not None and entry.position == decision.position and decision.gap.kind is not GapKind.DELETED
    return GapState.REQUESTED if waits else GapState.ACCEPTED


def unsettled(known: Collection[KnownGap]) -> Iterator[KnownGap]:
    """The gaps that still hold a flow."""
    return (one for one in known if one.state in (GapState.OPEN, GapState.REQUESTED))
