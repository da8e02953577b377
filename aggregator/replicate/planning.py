"""Planning an epoch: from the ledger and the edges' snapshots to slot plans and central topics.

Invariant: pure. A known topic id goes on where its winning ledger record says, or where a decision about its gap says;
another id starts a new incarnation at offset 0; a flow without a record begins where its rule says, and partitions
added later begin at their beginning. What the ledger knows and the edge no longer shows is held as a gap.
"""

import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from operator import itemgetter
from typing import NamedTuple, Self

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


class _Start(NamedTuple):
    """Where one flow goes on, where its log ends, whether its position is new, what it goes on without by a rule."""

    source: EdgePartition
    entry: LedgerRecord
    end: int | None
    terms: _Terms
    fresh: bool = False
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
    terms = cache(partial(_Terms.of, config, central, refused))
    decided = by_flow(decisions)
    starts: list[_Start] = []
    holds: list[Hold] = []
    gone = {source: entry for source, entry in ledger.items() if source.edge in snapshots}
    for edge, name in sorted((edge, name) for edge, shown in snapshots.items() for name in shown):
        for one in _of_topic(edge, snapshots[edge][name], terms(edge, name), gone, decided=decided, now_ms=now_ms):
            if isinstance(one, Hold):
                holds.append(one)
            else:
                starts.append(one)
    for source, entry in _lost(config, gone, decided, now_ms):
        starts.append(_Start(source, entry, None, terms(source.edge, source.topic), fresh=entry != ledger[source]))
    starts.sort(key=itemgetter(0))
    weights = {start.source: _FLOW_WEIGHT + max(0, (start.end or 0) - start.entry.next_offset) for start in starts}
    placed = assign(weights, {source: entry.slot for source, entry in ledger.items()}, config.replication.slots)
    by_slot: dict[int, list[FlowPlan]] = defaultdict(list)
    for start in starts:
        slot = placed[start.source]
        entry = start.entry.under(epoch, slot)
        by_slot[slot].append(_flow_plan(start, entry, start.end if drain else None))
    return EpochFlows({slot: tuple(flows) for slot, flows in by_slot.items()}, tuple(holds))


def _of_topic(
    edge: str,
    topic: EdgeTopic,
    terms: _Terms,
    gone: dict[EdgePartition, LedgerRecord],
    *,
    decided: Mapping[EdgePartition, tuple[Decision, ...]],
    now_ms: int,
) -> Iterator[_Start | Hold]:
    """Every partition of a topic that is there; what the ledger knows of them is taken out of `gone`."""
    edge, name = sys.intern(edge), sys.intern(topic.name)  # as the ledger's: see `EdgePartition.parse`
    sources = [EdgePartition(edge, name, partition) for partition in range(len(topic.starts))]
    entries = [gone.pop(source, None) for source in sources]
    widened = any(entry is not None and entry.topic_id == topic.topic_id for entry in entries)
    for source, found, end in zip(sources, entries, topic.ends, strict=True):
        begins = found is None or found.topic_id != topic.topic_id
        hold = _hold(source, topic, terms, now_ms=now_ms) if begins or terms.refused else None
        if hold:
            yield hold
        elif found is not None and not begins and found.gap is None and source not in decided:
            yield _Start(source, found, end, terms)
        else:
            own = _own_decision(source, found, topic, terms, now_ms)
            known = decided.get(source, ())
            entry, fresh = entry_of(found, source, topic, widened=widened, decisions=(*known, own) if own else known)
            yield _Start(source, entry, end, terms, fresh, own)


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


def _flow_plan(start: _Start, entry: LedgerRecord, until: int | None) -> FlowPlan:
    terms = start.terms
    return FlowPlan(
        start.source,
        entry,
        start.fresh,
        terms.central,
        terms.by_key,
        terms.limit_bytes,
        until,
        terms.skips,
        start.decision,
        terms.compacted,
    )
