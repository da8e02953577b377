"""Gives topics that an edge got to slots that run, so that every other flow goes on.

Invariant (protocol): of the flows of an epoch, each belongs to one slot. A topic is added only if nobody has ever
delivered any of it and no slot of the epoch has it: then its flows begin where a new epoch would let them begin, and
whatever follows is as with any other flow of the epoch. Whatever is more than a new topic ends the epoch: what the
ledger knows, a central topic that other flows write, a name that could bring records back, what is held or taken over.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from msgspec import structs

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.replicate.discovery.central_topics import Snapshots, target
from aggregator.replicate.epoch.growth import Shapes
from aggregator.replicate.epoch.plan import EpochFlows, plan_flows
from aggregator.replicate.flow.added_flows import added
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import BATCH_BYTES

# A record of the control topic says all that a slot was given, and a broker takes a megabyte by default.
_MAX_FLOWS, _MAX_CHARACTERS = 1000, 400_000


@dataclass
class RunningFlows:
    """What the slots of the running epoch read, and what is known of other flows.

    Attributes:
        epoch: Number of the epoch.
        slots: Number of its slots.
        by_slot: Edge partitions of each slot.
        known: Flows that the ledger had when the epoch opened.
        written: Central topics that the epoch writes.
        given: What each slot was given since.
    """

    epoch: int
    slots: int
    by_slot: Mapping[int, Collection[EdgePartition]]
    known: Collection[EdgePartition]
    written: set[str]
    given: dict[int, tuple[FlowPlan, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, epoch: int, slots: int, flows: EpochFlows, ledger: Collection[EdgePartition], written: Collection[str]
    ) -> Self:
        """What the slots have when their epoch opens; arguments as the attributes."""
        by_slot = {slot: table.sources for slot, table in flows.by_slot.items()}
        return cls(epoch, slots, by_slot, ledger, set(written))

    def flows_of(self, edge: str, *, with_heartbeats: bool) -> dict[int, int]:
        """How many flows of an edge each slot has; slots without any are left out."""
        given = ((slot, [plan.source for plan in plans]) for slot, plans in self.given.items())
        return Counter(
            slot
            for slot, sources in (*self.by_slot.items(), *given)
            for source in sources
            if source.edge == edge and (with_heartbeats or source.topic != HEARTBEATS)
        )

    @cached_property
    def topics(self) -> frozenset[tuple[str, str]]:
        """Edge and topic of every flow that the ledger or a slot had when the epoch opened."""
        planned = (source for flows in self.by_slot.values() for source in flows)
        return frozenset((source.edge, source.topic) for source in (*planned, *self.known))


def new_topics(before: Shapes, now: Shapes) -> dict[str, set[str]] | None:
    """Names of topics by edge, if nothing but new topics tells what edges show now from what they showed before.

    Args:
        before: Topics that the epoch has.
        now: Topics that the edges have.
    """
    if before.keys() != now.keys():
        return None
    kept = all(now[edge].get(name) == shape for edge, topics in before.items() for name, shape in topics.items())
    found = {edge: now[edge].keys() - before[edge].keys() for edge in now}
    return {edge: names for edge, names in found.items() if names} if kept else None


def obstacles(
    config: HubConfig, fresh: Snapshots, running: RunningFlows, shown: Snapshots, paused: Collection[str]
) -> Iterator[str]:
    """Why new topics need an epoch of their own; nothing if running slots can take them.

    Args:
        config: The hub.
        fresh: The new topics, by edge.
        running: What the slots have.
        shown: All that edges show, the new topics among it.
        paused: Edges that are not read.
    """
    new_names = {target(config, edge, name) for edge, topics in fresh.items() for name in topics}
    edge_topics = {name for topics in shown.values() for name in topics}
    added_topics = [(edge, topic) for edge, topics in fresh.items() for topic in topics.values()]
    flows = sum(len(topic.log_start_offsets) for _, topic in added_topics)
    if any((edge, topic.name) in running.topics for edge, topic in added_topics):
        yield "the ledger knows flows of them"
    if not new_names.isdisjoint(running.written):
        yield "flows of other topics write the same central topic"
    if not new_names.isdisjoint(edge_topics) or any(topic.name in running.written for _, topic in added_topics):
        yield "records could come back through an edge"
    if not fresh.keys().isdisjoint(paused):
        yield "an edge is paused"
    if any(_is_taken_over(config, edge, topic.name) for edge, topic in added_topics):
        yield "MirrorMaker 2 may have copied some of them"
    if not all(_slots_of(config, running, edge) for edge in fresh):
        yield "no slot has a share of an edge's rate limit"
    if flows + sum(map(len, running.given.values())) > _MAX_FLOWS:
        yield "they are many"


def _slots_of(config: HubConfig, running: RunningFlows, edge: str) -> dict[int, int]:
    """The slots that may read more of an edge, with the number of its flows that they have.

    Those that read it; of an edge with a rate limit those that have a share of it, which heartbeats alone do not give.
    """
    limited = config.edges[edge].rate_limit is not None
    having = running.flows_of(edge, with_heartbeats=not limited)
    return having if having or limited else dict.fromkeys(range(running.slots), 0)


def _is_taken_over(config: HubConfig, edge: str, topic: str) -> bool:
    rule = rule_for(config, edge, topic)
    return rule is not None and isinstance(rule.start, MirrorMaker2)


def plan_additions(
    config: HubConfig,
    fresh: Snapshots,
    settings: Mapping[str, Mapping[str, str]],
    running: RunningFlows,
    *,
    now_ms: int,
    refused: Mapping[tuple[str, str], str] = {},
) -> dict[int, tuple[FlowPlan, ...]] | None:
    """The flows that each slot gets.

    None if one is held, its topic takes smaller records than the slots make, or a slot's flows take too long a record.

    A slot that reads the edge already takes them, the one with the fewest flows of it.

    Args:
        config: The hub.
        fresh: The new topics, by edge.
        settings: Settings of their central topics.
        running: What the slots have.
        now_ms: Central's present.
        refused: See `plan_flows`.
    """
    found = plan_flows(config, {}, fresh, settings, epoch=running.epoch, drain=False, now_ms=now_ms, refused=refused)
    plans = sorted((plan for table in found.by_slot.values() for plan in table), key=lambda plan: plan.source)
    if found.holds or any(plan.limits.record_bytes < BATCH_BYTES for plan in plans):
        return None
    more: dict[int, list[FlowPlan]] = {}
    counts: dict[str, dict[int, int]] = {}
    for plan in plans:
        edge = plan.source.edge
        count = counts.setdefault(edge, _slots_of(config, running, edge))
        slot = min(count, key=count.__getitem__)
        count[slot] += 1
        more.setdefault(slot, []).append(plan._replace(entry=structs.replace(plan.entry, slot=slot)))
    texts = (added(running.epoch, slot, (*running.given.get(slot, ()), *own)).plans for slot, own in more.items())
    return None if any(len(text) > _MAX_CHARACTERS for text in texts) else {s: tuple(own) for s, own in more.items()}
