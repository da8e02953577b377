"""Planning an epoch: from the ledger and the edges' snapshots to slot plans and central topics.

Invariant: pure. A known topic id goes on where its winning ledger record says; another id starts a new incarnation at
offset 0; a flow without a record begins where its rule says, and partitions added later begin at their beginning.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.kafka.ledger import LedgerRecord
from aggregator.kafka.names import HEARTBEATS, central_heartbeats, central_topic
from aggregator.kafka.topics import TopicSpec
from aggregator.replicate.assignment import assign
from aggregator.replicate.discovery import EdgeTopic
from aggregator.replicate.flow import FlowPlan, Hold
from aggregator.replicate.retention import refusal

Snapshots = Mapping[str, Mapping[str, EdgeTopic]]
Ledger = Mapping[EdgePartition, LedgerRecord]

# A flow costs something even when nothing waits: fetch requests, a position to keep.
_FLOW_WEIGHT = 1000.0
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
                settings = {"cleanup.policy": topic.settings.get("cleanup.policy", "delete")} | rule.central_config
            known = specs.get(name)
            specs[name] = TopicSpec(name, max(count, known.partitions if known else 0), settings)
    return list(specs.values())


def entry_of(
    ledger: Ledger, source: EdgePartition, topic: EdgeTopic, *, epoch: int, slot: int
) -> tuple[LedgerRecord, bool]:
    """Where a flow goes on in this epoch, and whether that position is new."""
    found = ledger.get(source)
    if found is not None and found.topic_id == topic.topic_id:
        return replace(found, epoch=epoch, slot=slot), False
    if found is not None:
        again = replace(found, incarnation=found.incarnation + 1, topic_id=topic.topic_id, next_offset=0)
        return replace(again, epoch=epoch, slot=slot), True
    grown = any(
        flow.edge == source.edge and flow.topic == source.topic and entry.topic_id == topic.topic_id
        for flow, entry in ledger.items()
    )
    offset = (topic.starts if grown else topic.firsts)[source.partition]
    return LedgerRecord(0, topic.topic_id, offset, epoch, slot), True


def plan_flows(
    config: HubConfig,
    ledger: Ledger,
    snapshots: Snapshots,
    central: Mapping[str, Mapping[str, str]],
    *,
    epoch: int,
    drain: bool,
    now_ms: int,
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

    Returns:
        Plans per slot, and the flows that are refused with their reasons.
    """
    topics = {
        EdgePartition(edge, topic.name, partition): topic
        for edge, shown in snapshots.items()
        for topic in shown.values()
        for partition in range(len(topic.starts))
    }
    holds = []
    weights = {}
    for source, topic in topics.items():
        entry, fresh = entry_of(ledger, source, topic, epoch=epoch, slot=0)
        name = target(config, source.edge, source.topic)
        reason = refusal(topic, source.partition, central[name], now_ms=now_ms, central_name=name) if fresh else None
        if reason:
            holds.append(Hold(source, "retention", reason))
        else:
            weights[source] = _FLOW_WEIGHT + max(0, topic.ends[source.partition] - entry.next_offset)
    placed = assign(weights, {source: entry.slot for source, entry in ledger.items()}, config.replication.slots)
    by_slot: dict[int, list[FlowPlan]] = defaultdict(list)
    for source, slot in sorted(placed.items()):
        topic = topics[source]
        entry, fresh = entry_of(ledger, source, topic, epoch=epoch, slot=slot)
        name = target(config, source.edge, source.topic)
        rule = None if source.topic == HEARTBEATS else rule_for(config, source.edge, source.topic)
        by_slot[slot].append(
            FlowPlan(
                source,
                entry,
                fresh,
                name,
                by_key=rule is not None and rule.partition_by == "key",
                limit_bytes=int(central[name].get("max.message.bytes", 1_048_588)),
                until=topic.ends[source.partition] if drain else None,
            )
        )
    return EpochFlows({slot: tuple(flows) for slot, flows in by_slot.items()}, tuple(holds))
