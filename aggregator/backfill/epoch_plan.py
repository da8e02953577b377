"""Plans an epoch of a backfill: makes slot plans from its frozen plan, from what may still be written, and from the
edges.

Invariant: pure. An epoch writes what the frozen plan holds beyond the backfill's own ledger position. It writes only
what is still missing now, when every other backfill is fenced. A partition of a recreated topic is not read.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.planner import FlowAtCentral, still_writable, unrecoverable
from aggregator.backfill.ranges import Ranges, difference, intersection, offset_count, offsets_of
from aggregator.backfill.request import Mode
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange
from aggregator.errors import FatalError
from aggregator.replicate.discovery.central_topics import is_by_key, target
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch.assignment import NOWHERE, assign
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.gaps import with_unread
from aggregator.replicate.flow.limits import TopicLimits, is_compacted
from aggregator.replicate.flow.route import Route
from aggregator.replicate.flow.schema_fingerprints import Fingerprints, merged_fingerprints
from aggregator.state.ledger import LedgerRecord

_FORGETS = "is compacted, and forgets what a restate brings by it; set cleanup.policy=delete on it, then resume"


@dataclass(frozen=True, slots=True)
class EpochPlan:
    """Describes what one epoch of a backfill writes, and what it leaves out.

    Attributes:
        by_slot: Flows with something left to write.
        lost: Offsets of the plan that cannot be read any more, by flow.
        holds: Flows that are refused, with the reason.
        silent: Edges of flows that have something left and that no slot got, because they did not answer or were paused
            when the epoch opened.
    """

    by_slot: Mapping[int, tuple[FlowPlan, ...]]
    lost: Mapping[EdgePartition, tuple[OffsetRange, ...]]
    holds: tuple[Hold, ...]
    silent: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClusterState:
    """Describes the clusters as an epoch finds them.

    Attributes:
        config: The hub, as the backfill delivers.
        topics: Topics that each edge shows, by edge and topic; empty for an edge that does not answer.
        silent: Edges that do not answer, or are paused.
        settings: Settings of the central topics.
        refused: Edge and topic of flows that must not run, with the reason.
        unanswered: Edge and topic of flows about which no cluster answers, with the reason; they may still exist.
    """

    config: HubConfig
    topics: Mapping[tuple[str, str], EdgeTopic]
    silent: frozenset[str]
    settings: Mapping[str, Mapping[str, str]]
    refused: Mapping[tuple[str, str], str]
    unanswered: Mapping[tuple[str, str], str] = field(default_factory=dict)


def plan_epoch(
    plan: Plan,
    clusters: ClusterState,
    flows_at_central: Mapping[EdgePartition, FlowAtCentral],
    entries: Mapping[EdgePartition, LedgerRecord],
    *,
    epoch: int,
) -> EpochPlan:
    """Decide every flow of an epoch.

    Args:
        plan: The frozen plan.
        clusters: The state of the clusters.
        flows_at_central: What central knows of the plan's flows, read after every other backfill was fenced.
        entries: The backfill's own ledger records.
        epoch: Number of the epoch.

    Raises:
        FatalError: the rules send a topic elsewhere by now.
    """
    ready: dict[EdgePartition, FlowPlan] = {}
    silent, lost = _plan_silent_edges(plan, clusters, flows_at_central, entries)
    holds = []
    fingerprints = _fingerprints(flows_at_central)
    for one in plan.writes:
        _require_same_target(clusters.config, one)
        if one.source.edge in clusters.silent:
            continue
        at_central, entry = flows_at_central.get(one.source), entries.get(one.source)
        left = _left(plan, one, at_central, entry)
        topic = clusters.topics.get((one.source.edge, one.source.topic))
        if topic is None and (why := clusters.unanswered.get((one.source.edge, one.source.topic))):
            holds.append(Hold(one.source, HoldReason.DISCOVERY, why))
            continue
        if topic is None or topic.topic_id != one.topic_id or at_central is None:
            lost[one.source] = _ahead(one.segments, entry)
            continue
        if (one.source.edge, one.source.topic) in clusters.refused:
            holds.append(Hold(one.source, HoldReason.POLICY, clusters.refused[one.source.edge, one.source.topic]))
            continue
        if left and plan.mode is Mode.RESTATE and is_compacted(clusters.settings.get(one.central, {})):
            holds.append(Hold(one.source, HoldReason.CENTRAL, f"{one.central} {_FORGETS}"))
            continue
        away = unrecoverable(plan.mode, at_central, one.segments)
        if ahead := _ahead(away, entry):
            lost[one.source] = ahead
        if left:
            flow = _flow(one, clusters, entry, left, _known(one, entry, at_central, away))
            ready[one.source] = flow._replace(
                unresolved_offsets=at_central.replayed(plan.mode),
                replayed_offsets=at_central.asked(plan.mode),
                live_leader_epoch=at_central.entry.leader_epoch,
                backfill=plan.id,
                fingerprints=fingerprints[one.source.edge, one.source.topic],
            )
    by_slot = _by_slot(ready, entries, slots=clusters.config.replication.slots, epoch=epoch)
    return EpochPlan(by_slot, lost, tuple(holds), silent)


def _by_slot(
    ready: Mapping[EdgePartition, FlowPlan], entries: Mapping[EdgePartition, LedgerRecord], *, slots: int, epoch: int
) -> dict[int, tuple[FlowPlan, ...]]:
    """Share the flows among slots by what they have to read; a flow stays where it was if it can."""
    sources = sorted(ready)
    weights = np.array([1000.0 + offset_count(offsets_of(ready[source].segments)) for source in sources])
    before = np.array([entries[source].slot if source in entries else NOWHERE for source in sources], np.int64)
    by_slot: dict[int, list[FlowPlan]] = defaultdict(list)
    for source, slot in zip(sources, assign(sources, weights, before, slots).tolist(), strict=True):
        flow = ready[source]
        by_slot[slot].append(flow._replace(entry=structs.replace(flow.entry, epoch=epoch, slot=slot)))
    return {slot: tuple(flows) for slot, flows in by_slot.items()}


def _plan_silent_edges(
    plan: Plan,
    clusters: ClusterState,
    flows_at_central: Mapping[EdgePartition, FlowAtCentral],
    entries: Mapping[EdgePartition, LedgerRecord],
) -> tuple[frozenset[str], dict[EdgePartition, tuple[OffsetRange, ...]]]:
    """Silent edges that are waited for because something of them is left, and what nobody can bring of the others."""
    silent, lost = set[str](), {}
    for one in plan.writes:
        if one.source.edge not in clusters.silent:
            continue
        at_central, entry = flows_at_central.get(one.source), entries.get(one.source)
        if at_central is None or _left(plan, one, at_central, entry):
            silent.add(one.source.edge)
        elif ahead := _ahead(unrecoverable(plan.mode, at_central, one.segments), entry):
            lost[one.source] = ahead
    return frozenset(silent), lost


def _left(
    plan: Plan, one: PartitionPlan, at_central: FlowAtCentral | None, entry: LedgerRecord | None
) -> tuple[IncarnationRange, ...]:
    """Parts of a partition's plan that are not written yet and may be."""
    if at_central is None:
        return ()
    behind = entry.next_offset if entry is not None and entry.topic_id == one.topic_id else 0
    return tuple(
        IncarnationRange(at, OffsetRange(max(start, behind), end))
        for at, (start, end) in still_writable(plan.mode, at_central, one.segments)
        if end > behind
    )


def _ahead(parts: Iterable[IncarnationRange], entry: LedgerRecord | None) -> Ranges:
    """Offsets that the backfill has not passed yet."""
    return intersection(offsets_of(parts), [OffsetRange(entry.next_offset if entry else 0, 2**62)])


def _known(
    one: PartitionPlan, entry: LedgerRecord | None, at_central: FlowAtCentral, away: Iterable[IncarnationRange]
) -> LedgerRecord:
    """The flow's record, or its first, with what nobody can bring any more: its position will pass over that unread."""
    if entry is None:
        incarnation, (begin, _) = one.segments[0]
        # Schema ids mean to a backfill what they have meant to the live flow.
        entry = LedgerRecord(incarnation, one.topic_id, begin, 0, 0, schemas=at_central.entry.schemas, resolved=0)
    unread = entry.unread
    for at, part in away:
        for fresh in difference(_ahead([IncarnationRange(at, part)], entry), offsets_of(unread)):
            unread = with_unread(unread, IncarnationRange(at, fresh))
    return structs.replace(entry, unread=unread)


def _flow(
    one: PartitionPlan,
    clusters: ClusterState,
    entry: LedgerRecord | None,
    left: tuple[IncarnationRange, ...],
    known: LedgerRecord,
) -> FlowPlan:
    first = Route(left).position(left[0].offsets.start)
    whole = known.leader_epoch if known.next_offset == first.next_offset else None  # nobody has read up to there
    at = {"incarnation": first.incarnation, "next_offset": first.next_offset, "topic_id": one.topic_id}
    now = structs.replace(known, **at, leader_epoch=whole)
    central = clusters.settings.get(one.central, {})
    return FlowPlan(
        one.source,
        now,
        is_new_position=now != entry,
        central_topic=one.central,
        by_key=is_by_key(clusters.config, one.source.edge, one.source.topic),
        limits=TopicLimits.of(central),
        until=left[-1].offsets.end,
        skips_gaps=True,
        segments=left,
    )


def _fingerprints(flows_at_central: Mapping[EdgePartition, FlowAtCentral]) -> Mapping[tuple[str, str], Fingerprints]:
    """The fingerprints of schema ids in the live flows of each edge topic."""
    of_topic: dict[tuple[str, str], list[Fingerprints]] = defaultdict(list)
    for source, known in flows_at_central.items():
        of_topic[source.edge, source.topic].append(known.entry.schemas)
    return {topic: merged_fingerprints(known) for topic, known in of_topic.items()}


def _require_same_target(config: HubConfig, one: PartitionPlan) -> None:
    try:
        now = target(config, one.source.edge, one.source.topic)
    except KeyError:
        now = "nowhere"
    if now != one.central:
        raise FatalError(
            f"the plan sends {one.source} to {one.central}, and the configuration sends it to {now} by now",
            hint="cancel this backfill and plan another one",
        )
