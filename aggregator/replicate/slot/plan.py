"""This module defines what the driver tells a slot for an epoch, and what the slot reports when it ends.

Invariant: frozen. Plans travel to executors and outcomes travel back. They contain no secrets and no content of
records.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from aggregator.coordinates import EdgePartition, Partition
from aggregator.replicate.flow.added_flows import unknown_flows
from aggregator.replicate.flow.cursor import Hold
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.refused_topics import RefusedTopics
from aggregator.state.control import AddedFlows, ControlState
from aggregator.state.names import HubNames


@dataclass(frozen=True, slots=True)
class BackfillTerms:
    """Holds the terms of a backfill; an epoch of live flows has none.

    Attributes:
        backfill: Its id: header of its records, end of its ledger keys.
        dead_letters: Where its dead letters go, and the resolutions of those that it delivers.
        rate: Records that one slot takes a second; None: no bound.
        writes_notices: Whether it tells of each record that it reads and leaves out, as a restate does.
    """

    backfill: str
    dead_letters: str
    rate: float | None = None
    writes_notices: bool = False


@dataclass(frozen=True, slots=True)
class SlotPlan:
    """The work of one slot in one epoch, sent to an executor.

    Attributes:
        names: The hub's names at central, or those of its backfills.
        epoch: The epoch's number.
        driver: The driver that opened the epoch. If the control topic was deleted, another driver may use the same
        epoch number.
        slot: The slot's number.
        flows: What it reads, and from where.
        commit_policy: When it commits.
        drain: Whether it ends once it has read everything.
        patience_s: How long a drain waits for a silent edge.
        terms: Of a backfill; None in an epoch of live flows.
        rates: The slot's shares of the edges' limits, in bytes a second.
        added: Where flows came from that were added since the epoch began.
    """

    names: HubNames
    epoch: int
    driver: str
    slot: int
    flows: Collection[FlowPlan]
    commit_policy: CommitPolicy
    drain: bool
    patience_s: float
    terms: BackfillTerms | None = None
    rates: Mapping[str, float] = field(default_factory=dict)
    added: AddedFlows | None = None


class SlotResult(StrEnum):
    """How a slot ended: the control topic names another epoch, or none; it was asked to end; it had read everything; it
    was fenced; it failed.
    """

    SUPERSEDED = "superseded"
    STOPPED = "stopped"
    DRAINED = "drained"
    FENCED = "fenced"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SlotOutcome:
    """How a slot ended, and what it says of its flows.

    Attributes:
        slot: Its number.
        result: How it ended.
        undrained: Flows of an edge that stayed silent for the patience of `--drain`.
        holds: Flows that stand still, with reasons.
        detail: The error that ended it.
        undecided_partitions: Those of central in which something was undecided when it ended, or that did not answer.
    """

    slot: int
    result: SlotResult
    undrained: tuple[EdgePartition, ...] = ()
    holds: tuple[Hold, ...] = ()
    detail: str = ""
    undecided_partitions: tuple[Partition, ...] = ()


def session_outcome(
    plan: SlotPlan, flows: Mapping[EdgePartition, Flow], result: SlotResult, undecided: tuple[Partition, ...]
) -> SlotOutcome:
    """How a slot ended that had begun to deliver."""
    silent = tuple(at for at, flow in flows.items() if plan.drain and not flow.is_drained and not flow.cursor.hold)
    holds = tuple(flow.cursor.hold for flow in flows.values() if flow.cursor.hold)
    return SlotOutcome(plan.slot, result, silent, holds, undecided_partitions=undecided)


def with_added_flows(plan: SlotPlan, seen: ControlState) -> SlotPlan:
    """The plan, with what the control topic has given its slot since; the same object if that is nothing.

    Raises:
        FatalError: somebody else than the driver wrote there.
    """
    said = seen.added.get(plan.slot)
    if said == plan.added:
        return plan
    more = unknown_flows(said, plan.epoch, {flow.source for flow in plan.flows})
    return replace(plan, flows=(*plan.flows, *more), added=said)


def blocked_report(plan: SlotPlan, refused: RefusedTopics, why: str) -> dict[str, object]:
    """The report of a slot that can begin no transaction, or does not know how the last one ended: nothing flows."""
    waiting = {str(flow.source): why for flow in plan.flows}
    figures = {"transactions": 0, "aborts": refused.aborts, "aborted": refused.why, "held": {}, "waiting": waiting}
    return {"epoch": plan.epoch, "slot": plan.slot} | figures


def session_report(plan: SlotPlan, flows: Mapping[EdgePartition, Flow], refused: RefusedTopics) -> dict[str, object]:
    """What a slot that delivers tells of its flows: how many records are at central, what is held, what waits."""
    cursors = {str(at): flow.cursor for at, flow in flows.items()}
    waiting = {at: one.waiting.why for at, one in cursors.items() if one.waiting and not one.is_readable}
    held = {at: [one.hold.reason, one.hold.detail] for at, one in cursors.items() if one.hold}
    return {
        "epoch": plan.epoch,
        "slot": plan.slot,
        "aborts": refused.aborts,
        "aborted": refused.why,
        "delivered": sum(flow.committed.entry.delivered for flow in flows.values()),
        "held": held,
        "waiting": {at: why for at, why in waiting.items() if at not in held},
    }
