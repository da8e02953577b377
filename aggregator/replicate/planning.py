"""Planning an epoch: from the ledger and the edges' snapshots to slot plans and central topics.

Invariant: pure. A known topic id goes on where its winning ledger record says, or where a decision about its gap says;
another id starts a new incarnation at offset 0; a flow without a record begins where its rule says, and partitions
added later begin at their beginning. What the ledger knows and the edge no longer shows is held as a gap.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import repeat
from typing import Self

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Segment
from aggregator.kafka.gap import Decision, GapKind
from aggregator.kafka.ledger import LedgerRecord
from aggregator.kafka.names import HEARTBEATS, central_heartbeats, central_topic
from aggregator.kafka.requests import by_flow
from aggregator.kafka.topics import TopicSpec
from aggregator.privacy.agreement import COMPACT
from aggregator.replicate.assignment import assign
from aggregator.replicate.discovery import EdgeTopic, is_internal
from aggregator.replicate.flow import FlowPlan, Hold
from aggregator.replicate.gaps import deleted, is_decided, new_life, settled, skipped
from aggregator.replicate.retention import refusal

Snapshots = Mapping[str, Mapping[str, EdgeTopic]]
Ledger = Mapping[EdgePartition, LedgerRecord]

# A flow costs something even when nothing waits: fetch requests, a position to keep.
_FLOW_WEIGHT = 1000.0
# A record keeps its time, and central takes it: a broker refuses what is an hour ahead of its clock unless it is told
# otherwise, and a refused record aborts its slot's transaction for ever.
_ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}
_HEARTBEAT_SETTINGS = {"message.timestamp.type": "LogAppendTime", "cleanup.policy": "compact"}


@dataclass(frozen=True, slots=True)
class EpochFlows:
    """Flows by slot, and those that are refused before they start."""

    by_slot: Mapping[int, tuple[FlowPlan, ...]]
    holds: tuple[Hold, ...]


def target(config: HubConfig, edge: str, topic: str) -> str:
    """Central topic of an edge topic that is replicated."""
    if topic == HEARTBEATS:
        return central_heartbeats(edge)
    rule = rule_for(config, edge, topic)
    if rule is None:
        raise KeyError(topic)
    return central_topic(rule.central, edge, topic)


def central_topics(config: HubConfig, snapshots: Snapshots) -> list[TopicSpec]:
    """Topics that central needs, each with as many partitions as its widest source."""
    specs: dict[str, TopicSpec] = {}
    for edge, shown in snapshots.items():
        for topic in shown.values():
            name, count = target(config, edge, topic.name), len(topic.starts)
            rule = None if topic.name == HEARTBEATS else rule_for(config, edge, topic.name)
            if rule is None:
                settings = dict(_HEARTBEAT_SETTINGS)
            else:
                policy = {"cleanup.policy": topic.settings.get("cleanup.policy", "delete")}
                settings = policy | _ANY_TIME | rule.central_config
            known = specs.get(name)
            specs[name] = TopicSpec(name, max(count, known.partitions if known else 0), settings)
    return list(specs.values())


def is_compacted(settings: Mapping[str, str]) -> bool:
    """Whether a topic of these settings takes no record without a key."""
    return COMPACT in settings.get("cleanup.policy", "")


def skips_gaps(config: HubConfig, edge: str, topic: str) -> bool:
    """Whether a gap of this edge topic holds nothing; heartbeats are a signal, not data."""
    rule = None if topic == HEARTBEATS else rule_for(config, edge, topic)
    return rule is None or rule.on_gap == "skip"


def entry_of(
    found: LedgerRecord | None,
    source: EdgePartition,
    topic: EdgeTopic,
    *,
    widened: bool,
    decisions: tuple[Decision, ...] = (),
) -> tuple[LedgerRecord, bool]:
    """Where a flow goes on, and whether that position is new; under which epoch and slot is decided later.

    Args:
        found: Its winning ledger record, if it has one.
        source: The flow.
        topic: What its edge shows.
        widened: Whether the ledger knows another partition of this life of the topic: this one was added later.
        decisions: What was decided about its gaps.
    """
    if found is not None and found.topic_id == topic.topic_id:
        moved = settled(found, decisions)
        return moved, moved != found
    if found is not None:
        again = found._replace(incarnation=found.incarnation + 1, topic_id=topic.topic_id, next_offset=0)
        return again._replace(gap=None, leader_epoch=None, unread=()), True
    offset = (topic.starts if widened else topic.firsts)[source.partition]
    unread = (Segment(0, OffsetRange(0, offset)),) if offset else ()
    return LedgerRecord(0, topic.topic_id, offset, epoch=0, slot=0, unread=unread), True


@dataclass(frozen=True, slots=True)
class _Terms:
    """What holds for every partition of one edge topic, found once: an epoch may open with 200,000 partitions."""

    central: str
    settings: Mapping[str, str]
    refused: str | None
    by_key: bool
    skips: bool
    limit_bytes: int
    compacted: bool

    @classmethod
    def of(
        cls,
        config: HubConfig,
        central: Mapping[str, Mapping[str, str]],
        refused: Mapping[tuple[str, str], str],
        edge: str,
        topic: str,
    ) -> Self:
        name = target(config, edge, topic)
        rule = None if topic == HEARTBEATS else rule_for(config, edge, topic)
        settings = central.get(name, {})
        return cls(
            name,
            settings,
            refused.get((edge, topic)),
            by_key=rule is not None and rule.partition_by == "key",
            skips=skips_gaps(config, edge, topic),
            limit_bytes=int(settings.get("max.message.bytes", 1_048_588)),
            compacted=is_compacted(settings),
        )


@dataclass(frozen=True, slots=True)
class _Starts:
    """Flows and where each goes on, in columns; an object for each of 200,000 would take longer than its plan.

    Attributes:
        ends: Where each log ends; None for one that is gone.
        fresh: Of those whose position is new: what it goes on without by a rule, if anything.
    """

    sources: list[EdgePartition] = field(default_factory=list)
    entries: list[LedgerRecord] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    terms: list[_Terms] = field(default_factory=list)
    fresh: dict[EdgePartition, Decision | None] = field(default_factory=dict)

    def add(self, source: EdgePartition, entry: LedgerRecord, end: int | None, terms: _Terms) -> None:
        """One flow."""
        self.extend([source], [entry], [end], terms)

    def extend(
        self,
        sources: Sequence[EdgePartition],
        entries: Iterable[LedgerRecord],
        ends: Iterable[int | None],
        terms: _Terms,
    ) -> None:
        """Flows of one topic."""
        self.sources.extend(sources)
        self.entries.extend(entries)
        self.ends.extend(ends)
        self.terms.extend(repeat(terms, len(sources)))

    def weights(self) -> dict[EdgePartition, float]:
        """Work per flow."""
        return {
            source: _FLOW_WEIGHT + (end - entry.next_offset if end and end > entry.next_offset else 0)
            for source, entry, end in zip(self.sources, self.entries, self.ends, strict=True)
        }

    def placed(self, slots: Mapping[EdgePartition, int], epoch: int, *, drain: bool) -> dict[int, tuple[FlowPlan, ...]]:
        """A plan for each flow, by slot."""
        by_slot: dict[int, list[FlowPlan]] = defaultdict(list)
        for source, entry, end, terms in zip(self.sources, self.entries, self.ends, self.terms, strict=True):
            slot = slots[source]
            plan = FlowPlan(
                source,
                entry.under(epoch, slot),
                source in self.fresh,
                terms.central,
                terms.by_key,
                terms.limit_bytes,
                end if drain else None,
                terms.skips,
                self.fresh.get(source),
                terms.compacted,
            )
            by_slot[slot].append(plan)
        return {slot: tuple(plans) for slot, plans in by_slot.items()}


def plan_flows(
    config: HubConfig,
    ledger: Ledger,
    snapshots: Snapshots,
    central: Mapping[str, Mapping[str, str]],
    *,
    epoch: int,
    drain: bool,
    now_ms: int,
    decisions: Collection[Decision] = (),
    refused: Mapping[tuple[str, str], str] = {},
) -> EpochFlows:
    """Decide every flow of an epoch.

    Args:
        config: The hub.
        ledger: Winning records.
        snapshots: Edge to topic name to what the edge shows.
        central: Settings of the central topics, by name.
        epoch: The new epoch's number.
        drain: Whether flows end at what existed when the edge was first seen.
        now_ms: Central's present, for the comparison of record age with retention.
        decisions: What was decided about gaps.
        refused: Edge and topic of flows that must not run, with the reason.

    Returns:
        Plans per slot, and the flows that are refused with their reasons.
    """
    terms = cache(partial(_Terms.of, config, central, refused))
    decided = by_flow(decisions)
    starts, holds = _Starts(), list[Hold]()
    gone = {source: entry for source, entry in ledger.items() if source.edge in snapshots}
    for edge, name in sorted((edge, name) for edge, shown in snapshots.items() for name in shown):
        topic = snapshots[edge][name]
        holds += _of_topic(edge, topic, terms(edge, name), gone, starts, decided=decided, now_ms=now_ms)
    for source, entry in sorted(_lost(config, gone, decided, now_ms)):
        starts.add(source, entry, None, terms(source.edge, source.topic))
        if entry != ledger[source]:
            starts.fresh[source] = None
    before = {source: entry.slot for source, entry in ledger.items()}
    placed = assign(starts.weights(), before, config.replication.slots)
    return EpochFlows(starts.placed(placed, epoch, drain=drain), tuple(holds))


def _of_topic(
    edge: str,
    topic: EdgeTopic,
    terms: _Terms,
    gone: dict[EdgePartition, LedgerRecord],
    starts: _Starts,
    *,
    decided: Mapping[EdgePartition, tuple[Decision, ...]],
    now_ms: int,
) -> list[Hold]:
    """Every partition of a topic that is there, into `starts`; what the ledger knows of them is taken out of `gone`."""
    edge, name = sys.intern(edge), sys.intern(topic.name)  # as the ledger's: see `EdgePartition.parse`
    sources = [EdgePartition(edge, name, partition) for partition in range(len(topic.starts))]
    entries = [gone.pop(source, None) for source in sources]
    going_on = [entry for entry in entries if entry is not None and entry.topic_id == topic.topic_id]
    stopped = any(entry.gap is not None for entry in going_on) or not decided.keys().isdisjoint(sources)
    if len(going_on) == len(sources) and not stopped and not terms.refused:  # nearly every topic of nearly every epoch
        starts.extend(sources, going_on, topic.ends, terms)
        return []
    holds = []
    for source, found, end in zip(sources, entries, topic.ends, strict=True):
        begins = found is None or found.topic_id != topic.topic_id
        hold = _hold(source, topic, terms, now_ms=now_ms) if begins or terms.refused else None
        if hold:
            holds.append(hold)
            continue
        own = _own_decision(source, found, topic, terms, now_ms)
        known = decided.get(source, ())
        decisions = (*known, own) if own else known
        entry, fresh = entry_of(found, source, topic, widened=bool(going_on), decisions=decisions)
        starts.add(source, entry, end, terms)
        if fresh:
            starts.fresh[source] = own
    return holds


def _hold(source: EdgePartition, topic: EdgeTopic, terms: _Terms, *, now_ms: int) -> Hold | None:
    """Why a flow must not run: its policy, or, where it begins, central's retention."""
    if terms.refused:
        return Hold(source, "policy", terms.refused)
    reason = refusal(topic, source.partition, terms.settings, now_ms=now_ms, central_name=terms.central)
    return Hold(source, "retention", reason) if reason else None


def _own_decision(
    source: EdgePartition, found: LedgerRecord | None, topic: EdgeTopic, terms: _Terms, now_ms: int
) -> Decision | None:
    """What the hub decides by itself of a flow; it counts like what a person did."""
    if found is not None and found.topic_id != topic.topic_id:
        return new_life(source, found, now_ms=now_ms)
    if found is not None and found.gap is not None and terms.skips:
        return skipped(source, found.position, found.gap, now_ms=now_ms)
    return None


def _lost(
    config: HubConfig, gone: Ledger, decided: Mapping[EdgePartition, tuple[Decision, ...]], now_ms: int
) -> Iterator[tuple[EdgePartition, LedgerRecord]]:
    """Flows that the configuration wants, the ledger knows, and their edge no longer shows."""
    for source, entry in gone.items():
        if is_internal(source.topic) or skips_gaps(config, source.edge, source.topic):
            continue
        if not is_decided(entry, GapKind.DELETED, decided.get(source, ())):
            yield source, entry._replace(gap=deleted(entry, since_ms=now_ms))
