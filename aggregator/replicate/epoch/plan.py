"""The plan of an epoch turns the ledger and the edges' snapshots into the flows of every slot.

Invariant: pure. A flow whose topic id is known continues at the position of its winning ledger record, or at the
position that a decision about its gap gives. Another topic id starts a new incarnation at offset 0. A flow without a
ledger record begins where its rule says, and a partition that was added later begins at its first offset. If the ledger
knows a flow that its edge no longer shows, the flow is held with a gap.
"""

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise, repeat
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Partition
from aggregator.replicate.discovery.central_topics import Snapshots, is_by_key, target
from aggregator.replicate.discovery.edge_topic import EdgeTopic, is_internal
from aggregator.replicate.discovery.retention import why_refused
from aggregator.replicate.epoch.assignment import NOWHERE, assign
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.flow.flow_table import FlowTable, TopicTerms
from aggregator.replicate.flow.gaps import deleted, is_decided, new_incarnation, skipped, with_decisions
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.flow.schema_fingerprints import merged_fingerprints
from aggregator.state.control import Target, former_topics
from aggregator.state.gap import GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from aggregator.state.requests import by_flow

Ledger = Mapping[EdgePartition, LedgerRecord]

# A flow has a cost even if no record waits: its fetch requests and its position.
_FLOW_WEIGHT = 1000.0


@dataclass(frozen=True, slots=True)
class EpochFlows:
    """Holds the flows of each slot, and the flows that are refused before they start."""

    by_slot: Mapping[int, FlowTable]
    holds: tuple[Hold, ...]


def undecided_elsewhere(
    now: Collection[Target], noted: Collection[Target], undecided: Mapping[Partition, str], letters: str
) -> dict[tuple[str, str], str]:
    """What is undecided among dead letters, which all flows write, and in partitions that flows wrote formerly.

    Such a flow waits. If it went on, records below its new position would count as committed when they are settled.
    """
    held = {topic: why for (topic, _), why in sorted(undecided.items())}
    former = former_topics(now, noted)
    places = {(one.edge, one.topic): (letters, *sorted(former.get((one.edge, one.topic), ()))) for one in now}
    return {flow: held[topic] for flow, topics in places.items() for topic in topics if topic in held}


def skips_gaps(config: HubConfig, edge: str, topic: str) -> bool:
    """Whether a gap of this edge topic holds nothing; heartbeats are a signal, not data."""
    rule = rule_for(config, edge, topic)
    return rule is None or rule.on_gap == "skip"


def entry_of(
    found: LedgerRecord | None,
    source: EdgePartition,
    topic: EdgeTopic,
    *,
    first_partitions: int,
    decisions: tuple[GapDecision, ...] = (),
) -> tuple[LedgerRecord, bool]:
    """Where a flow continues, and whether that position is new; epoch and slot are set later.

    Args:
        found: Its winning ledger record, if it has one.
        source: The flow.
        topic: The topic as its edge shows it.
        first_partitions: Number of partitions that begin at the rule's `start`; partitions that were added later do
            not.
        decisions: Decisions about the flow's gaps.
    """
    if found is not None and found.topic_id == topic.topic_id:
        moved = with_decisions(found, decisions)
        return moved, moved != found
    if found is not None:
        again = structs.replace(found, incarnation=found.incarnation + 1, topic_id=topic.topic_id, next_offset=0)
        known = topic.leader_epoch_before(source.partition, 0)
        return structs.replace(
            again, gap=None, leader_epoch=known, unread=(), first_partitions=first_partitions, copied=0
        ), True
    offset = (topic.initial_offsets if source.partition < first_partitions else topic.log_start_offsets)[
        source.partition
    ]
    unread = (IncarnationRange(0, OffsetRange(0, offset)),) if offset else ()
    known = topic.leader_epoch_before(source.partition, offset)
    first = LedgerRecord(0, topic.topic_id, offset, epoch=0, slot=NOWHERE, unread=unread)
    copied = topic.copied[source.partition] if topic.copied and source.partition < first_partitions else 0
    return structs.replace(first, leader_epoch=known, first_partitions=first_partitions, copied=copied), True


def initial_partitions(topic: EdgeTopic, entries: Collection[LedgerRecord | None]) -> int:
    """How many of a topic's partitions begin at the rule's `start`, by the ledger records of its partitions.

    These are all partitions of an unknown topic, and none of a recreated one, because everything in it is new. Ledger
    records of earlier versions lack the number. A partition without a record then counts as added later, and is read
    from its beginning.
    """
    known = [entry for entry in entries if entry is not None]
    if not known:
        return len(topic.log_start_offsets)
    return max((entry.first_partitions or 0 for entry in known if entry.topic_id == topic.topic_id), default=0)


class _Blocks(NamedTuple):
    """Holds the reasons why flows may not run, by topic or by partition.

    Attributes:
        policy: Reasons by edge and topic.
        undecided: Reasons by partition of central.
        elsewhere: Reasons by edge and topic: something may be undecided in a former topic.
    """

    policy: Mapping[tuple[str, str], str]
    undecided: Mapping[Partition, str]
    elsewhere: Mapping[tuple[str, str], str]


@dataclass(frozen=True, slots=True)
class _TopicPlan:
    """Holds what all partitions of one edge topic share; it is computed once, because an epoch may have 200,000."""

    terms: TopicTerms
    settings: Mapping[str, str]
    refused: str | None
    undecided: Mapping[int, str]
    elsewhere: str

    def why_not(self, partition: int) -> str:
        """What is undecided in the central partitions of a flow's records, present or former, if anything."""
        if self.elsewhere:
            return self.elsewhere
        if self.terms.by_key:
            return next(iter(self.undecided.values()), "")
        return self.undecided.get(partition, "")

    @classmethod
    def of(
        cls,
        config: HubConfig,
        central: Mapping[str, Mapping[str, str]],
        blocks: _Blocks,
        edge: str,
        topic: str,
    ) -> Self:
        name = target(config, edge, topic)
        settings = central.get(name, {})
        terms = TopicTerms(
            name,
            by_key=is_by_key(config, edge, topic),
            limits=TopicLimits.of(settings),
            skips_gaps=skips_gaps(config, edge, topic),
        )
        held = {partition: why for (topic, partition), why in blocks.undecided.items() if topic == name}
        return cls(terms, settings, blocks.policy.get((edge, topic)), held, blocks.elsewhere.get((edge, topic), ""))


@dataclass(frozen=True, slots=True)
class _Starts:
    """Holds flows and their starts in columns; one object for each of 200,000 flows would take longer than its plan.

    Attributes:
        ends: End of each log; None for a log that is gone.
        fresh: Flows whose position is new, each with the decision of a rule that it rests on, if any.
    """

    sources: list[EdgePartition] = field(default_factory=list)
    entries: list[LedgerRecord] = field(default_factory=list)
    ends: list[int | None] = field(default_factory=list)
    terms: list[TopicTerms] = field(default_factory=list)
    fresh: dict[EdgePartition, GapDecision | None] = field(default_factory=dict)

    def add(self, source: EdgePartition, entry: LedgerRecord, end: int | None, terms: TopicTerms) -> None:
        """Add the start of one flow."""
        self.extend([source], [entry], [end], terms)

    def extend(
        self,
        sources: Sequence[EdgePartition],
        entries: Iterable[LedgerRecord],
        ends: Iterable[int | None],
        terms: TopicTerms,
    ) -> None:
        """Add the starts of flows of one topic."""
        self.sources.extend(sources)
        self.entries.extend(entries)
        self.ends.extend(ends)
        self.terms.extend(repeat(terms, len(sources)))

    def weights(self) -> NDArray[np.float64]:
        """The work of each flow: its waiting records plus a constant."""
        ends = np.fromiter((end or 0 for end in self.ends), np.int64, len(self.ends))
        waiting: NDArray[np.float64] = np.maximum(ends - self._of_entries("next_offset"), 0.0)
        return waiting + _FLOW_WEIGHT

    def before(self) -> NDArray[np.int64]:
        """The slot that each flow was in; `NOWHERE` for a new flow."""
        return self._of_entries("slot")

    def _of_entries(self, name: str) -> NDArray[np.int64]:
        return np.fromiter(map(attrgetter(name), self.entries), np.int64, len(self.entries))

    def by_slot(self, slots: NDArray[np.int64], epoch: int, *, drain: bool) -> dict[int, FlowTable]:
        """The flows of each slot that has any."""
        order = np.argsort(slots, kind="stable")
        used, begins = np.unique(slots[order], return_index=True)
        return {
            slot: self._placed(epoch, slot, order[start:end].tolist(), drain=drain)
            for slot, (start, end) in zip(used.tolist(), pairwise([*begins, len(order)]), strict=True)
        }

    def _placed(self, epoch: int, slot: int, own: list[int], *, drain: bool) -> FlowTable:
        sources = [self.sources[at] for at in own]
        return FlowTable(
            epoch,
            slot,
            sources,
            entries=[self.entries[at] for at in own],
            until=[self.ends[at] if drain else None for at in own],
            terms=[self.terms[at] for at in own],
            fresh={source: self.fresh[source] for source in sources if source in self.fresh},
        )


def plan_flows(
    config: HubConfig,
    ledger: Ledger,
    snapshots: Snapshots,
    central: Mapping[str, Mapping[str, str]],
    *,
    epoch: int,
    drain: bool,
    now_ms: int,
    decisions: Collection[GapDecision] = (),
    refused: Mapping[tuple[str, str], str] = {},
    undecided: Mapping[Partition, str] = {},
    elsewhere: Mapping[tuple[str, str], str] = {},
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
        decisions: Decisions about gaps.
        refused: Edge and topic of flows that must not run, with the reason.
        undecided: Partitions of central that must not be written, with the reason.
        elsewhere: Edge and topic of flows that may have undecided records elsewhere, with the reason.

    Returns:
        Plans per slot, and the flows that are refused with their reasons.
    """
    rules = cache(partial(_TopicPlan.of, config, central, _Blocks(refused, undecided, elsewhere)))
    decided = by_flow(decisions)
    starts, holds = _Starts(), list[Hold]()
    for edge, name in sorted((edge, name) for edge, shown in snapshots.items() for name in shown):
        topic = snapshots[edge][name]
        holds += _of_topic(edge, topic, rules(edge, name), ledger, starts, decided=decided, now_ms=now_ms)
    for source, entry in sorted(_lost(config, _gone(ledger, snapshots), decided, now_ms)):
        starts.add(source, entry, None, rules(source.edge, source.topic).terms)
        if entry != ledger[source]:
            starts.fresh[source] = None
    slots = assign(starts.sources, starts.weights(), starts.before(), config.replication.slots)
    return EpochFlows(starts.by_slot(slots, epoch, drain=drain), tuple(holds))


def _of_topic(
    edge: str,
    topic: EdgeTopic,
    rules: _TopicPlan,
    ledger: Ledger,
    starts: _Starts,
    *,
    decided: Mapping[EdgePartition, tuple[GapDecision, ...]],
    now_ms: int,
) -> list[Hold]:
    """Every partition of a topic that is there, into `starts`."""
    edge, name = sys.intern(edge), sys.intern(topic.name)  # the ledger's texts: see `EdgePartition.parse`
    sources = [EdgePartition(edge, name, partition) for partition in range(len(topic.log_start_offsets))]
    entries = list(map(ledger.get, sources))
    terms = replace(
        rules.terms, fingerprints=merged_fingerprints(entry.schemas for entry in entries if entry is not None)
    )
    topic_id = topic.topic_id
    going_on = [entry for entry in entries if entry is not None and entry.topic_id == topic_id and entry.gap is None]
    asked = bool(decided) and not decided.keys().isdisjoint(sources)
    is_blocked = rules.refused or rules.undecided or rules.elsewhere
    if len(going_on) == len(sources) and not asked and not is_blocked:  # the usual case
        starts.extend(sources, going_on, topic.last_stable_offsets, terms)
        return []
    first_partitions = initial_partitions(topic, entries)
    holds = []
    for source, found, end in zip(sources, entries, topic.last_stable_offsets, strict=True):
        begins = found is None or found.topic_id != topic_id
        from_start = found is not None or source.partition >= first_partitions
        hold = (
            _hold(source, topic, rules, now_ms, begins=begins, from_start=from_start) if begins or is_blocked else None
        )
        if hold:
            holds.append(hold)
            continue
        own = _own_decision(source, found, topic, terms, now_ms)
        decisions = decided.get(source, ())
        entry, fresh = entry_of(
            found, source, topic, first_partitions=first_partitions, decisions=(*decisions, own) if own else decisions
        )
        starts.add(source, entry, end, terms)
        if fresh:
            starts.fresh[source] = own
    return holds


def _hold(
    source: EdgePartition, topic: EdgeTopic, rules: _TopicPlan, now_ms: int, *, begins: bool, from_start: bool
) -> Hold | None:
    """Why a flow must not run: its policy, undecided records at central, or the needs of a first start."""
    if rules.refused:
        return Hold(source, HoldReason.POLICY, rules.refused)
    if undecided := rules.why_not(source.partition):
        return Hold(source, HoldReason.UNDECIDED, undecided)
    if not begins:
        return None
    if topic.takeover_fault and not from_start:
        return Hold(source, HoldReason.MIRRORMAKER, topic.takeover_fault)
    name, partition = rules.terms.central_topic, source.partition
    reason = why_refused(topic, partition, rules.settings, now_ms=now_ms, central_name=name, from_start=from_start)
    return Hold(source, HoldReason.RETENTION, reason) if reason else None


def _own_decision(
    source: EdgePartition, found: LedgerRecord | None, topic: EdgeTopic, terms: TopicTerms, now_ms: int
) -> GapDecision | None:
    """The hub's own decision about a flow; it counts like a person's."""
    if found is not None and found.topic_id != topic.topic_id:
        return new_incarnation(source, found, now_ms=now_ms)
    if found is not None and found.gap is not None and terms.skips_gaps:
        return skipped(source, found.position, found.gap, now_ms=now_ms)
    return None


def _gone(ledger: Ledger, snapshots: Snapshots) -> Ledger:
    """The ledger records of flows that their edges, although they answered, do not show."""
    shown = {
        edge: {name: len(topic.log_start_offsets) for name, topic in topics.items()}
        for edge, topics in snapshots.items()
    }
    return {
        source: entry
        for source, entry in ledger.items()
        if (widths := shown.get(source.edge)) is not None and source.partition >= widths.get(source.topic, 0)
    }


def _lost(
    config: HubConfig, gone: Ledger, decided: Mapping[EdgePartition, tuple[GapDecision, ...]], now_ms: int
) -> Iterator[tuple[EdgePartition, LedgerRecord]]:
    """The flows that the configuration wants and the ledger knows, but their edge no longer shows."""
    for source, entry in gone.items():
        if is_internal(source.topic) or skips_gaps(config, source.edge, source.topic):
            continue
        if not is_decided(entry, GapKind.DELETED, decided.get(source, ())):
            yield source, structs.replace(entry, gap=deleted(entry, since_ms=now_ms))
