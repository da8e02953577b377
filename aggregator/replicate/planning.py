"""Planning an epoch: from the ledger and the edges' snapshots to slot plans and central topics.

Invariant: pure. A known topic id goes on where its winning ledger record says, or where a decision about its gap says;
another id starts a new incarnation at offset 0; a flow without a record begins where its rule says, and partitions
added later begin at their beginning. What the ledger knows and the edge no longer shows is held as a gap.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

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
    ledger: Ledger,
    source: EdgePartition,
    topic: EdgeTopic,
    *,
    epoch: int,
    slot: int,
    decisions: Iterable[Decision] = (),
) -> tuple[LedgerRecord, bool]:
    """Where a flow goes on in this epoch, and whether that position is new."""
    found = ledger.get(source)
    if found is not None and found.topic_id == topic.topic_id:
        moved = settled(found, decisions)
        return replace(moved, epoch=epoch, slot=slot), moved != found
    if found is not None:
        again = replace(found, incarnation=found.incarnation + 1, topic_id=topic.topic_id, next_offset=0)
        return replace(again, epoch=epoch, slot=slot, gap=None, leader_epoch=None, unread=()), True
    widened = any(
        flow.edge == source.edge and flow.topic == source.topic and entry.topic_id == topic.topic_id
        for flow, entry in ledger.items()
    )
    offset = (topic.starts if widened else topic.firsts)[source.partition]
    unread = (Segment(0, OffsetRange(0, offset)),) if offset else ()
    return LedgerRecord(0, topic.topic_id, offset, epoch, slot, unread=unread), True


@dataclass(frozen=True, slots=True)
class _Start:
    """Where one flow goes on, whether that is new, and what it goes on without by a rule."""

    entry: LedgerRecord
    fresh: bool
    decision: Decision | None = None


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
    topics = {
        EdgePartition(edge, topic.name, partition): topic
        for edge, shown in snapshots.items()
        for topic in shown.values()
        for partition in range(len(topic.starts))
    }
    decided = by_flow(decisions)
    starts = {}
    weights = {}
    holds = []
    for source, topic in topics.items():
        known = decided.get(source, ())
        start = starts[source] = _start(config, ledger, source, topic, known, epoch=epoch, now_ms=now_ms)
        begins = source not in ledger or ledger[source].topic_id != topic.topic_id
        name = target(config, source.edge, source.topic)
        hold = _hold(source, topic, central[name], name, refused, begins=begins, now_ms=now_ms)
        if hold:
            holds.append(hold)
        else:
            weights[source] = _FLOW_WEIGHT + max(0, topic.ends[source.partition] - start.entry.next_offset)
    gone = {source: entry for source, entry in ledger.items() if source.edge in snapshots and source not in topics}
    for source, entry in _lost(config, gone, decided, now_ms):
        starts[source] = _Start(entry, fresh=entry != ledger[source])
        weights[source] = _FLOW_WEIGHT
    placed = assign(weights, {source: entry.slot for source, entry in ledger.items()}, config.replication.slots)
    by_slot: dict[int, list[FlowPlan]] = defaultdict(list)
    for source, slot in sorted(placed.items()):
        entry = replace(starts[source].entry, epoch=epoch, slot=slot)
        until = topics[source].ends[source.partition] if drain and source in topics else None
        by_slot[slot].append(_flow_plan(config, central, source, replace(starts[source], entry=entry), until))
    return EpochFlows({slot: tuple(flows) for slot, flows in by_slot.items()}, tuple(holds))


def _hold(
    source: EdgePartition,
    topic: EdgeTopic,
    central: Mapping[str, str],
    name: str,
    refused: Mapping[tuple[str, str], str],
    *,
    begins: bool,
    now_ms: int,
) -> Hold | None:
    """Why a flow must not run: its policy, or, where it begins, central's retention."""
    against = refused.get((source.edge, source.topic))
    if against:
        return Hold(source, "policy", against)
    reason = refusal(topic, source.partition, central, now_ms=now_ms, central_name=name) if begins else None
    return Hold(source, "retention", reason) if reason else None


def _start(
    config: HubConfig,
    ledger: Ledger,
    source: EdgePartition,
    topic: EdgeTopic,
    decisions: tuple[Decision, ...],
    *,
    epoch: int,
    now_ms: int,
) -> _Start:
    """Where a flow begins whose topic is there; what the hub decides by itself counts like what a person did."""
    found, own = ledger.get(source), None
    if found is not None and found.topic_id != topic.topic_id:
        own = new_life(source, found, now_ms=now_ms)
    elif found is not None and found.gap is not None and skips_gaps(config, source.edge, source.topic):
        own = skipped(source, found.position, found.gap, now_ms=now_ms)
    known = (*decisions, own) if own else decisions
    entry, fresh = entry_of(ledger, source, topic, epoch=epoch, slot=0, decisions=known)
    return _Start(entry, fresh, own)


def _lost(
    config: HubConfig, gone: Ledger, decided: Mapping[EdgePartition, tuple[Decision, ...]], now_ms: int
) -> Iterator[tuple[EdgePartition, LedgerRecord]]:
    """Flows that the configuration wants, the ledger knows, and their edge no longer shows."""
    for source, entry in gone.items():
        if is_internal(source.topic) or skips_gaps(config, source.edge, source.topic):
            continue
        if not is_decided(entry, GapKind.DELETED, decided.get(source, ())):
            yield source, replace(entry, gap=deleted(entry, since_ms=now_ms))


def _flow_plan(
    config: HubConfig,
    central: Mapping[str, Mapping[str, str]],
    source: EdgePartition,
    start: _Start,
    until: int | None,
) -> FlowPlan:
    name = target(config, source.edge, source.topic)
    rule = None if source.topic == HEARTBEATS else rule_for(config, source.edge, source.topic)
    return FlowPlan(
        source,
        start.entry,
        start.fresh,
        name,
        by_key=rule is not None and rule.partition_by == "key",
        limit_bytes=int(central.get(name, {}).get("max.message.bytes", 1_048_588)),
        until=until,
        skips=skips_gaps(config, source.edge, source.topic),
        decision=start.decision,
        compacted=is_compacted(central.get(name, {})),
    )
