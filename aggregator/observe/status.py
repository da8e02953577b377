"""Composes the status of edges, flows and the lake from the ledger, the edges' ends and central's heartbeats.

Invariant: this module only reads. All edges are asked at the same time; one that does not answer costs its time-out
once, and its flows are still shown from the ledger. An edge's state is the one that the running hub published. Without
a running hub it is judged by one look. The reasons why flows stand still are the last that a hub published, whether it
still runs or not.
"""

from collections.abc import Mapping

from aggregator.backfill.backfill_state import Backfill, BackfillState
from aggregator.backfill.store import read_backfills
from aggregator.config.model import HubConfig
from aggregator.config.waivers import waivers
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import AvailabilityState, Observation, Patience, judge
from aggregator.edges.history import uptimes
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log import read_last
from aggregator.kafka.readers.single_records import last_timestamps
from aggregator.lake.status import lake_status
from aggregator.observe.drift import drift
from aggregator.observe.edge_account import ClockPair
from aggregator.observe.edge_snapshot import edge_snapshot
from aggregator.observe.flow_status import edge_flows
from aggregator.observe.gaps import unsettled
from aggregator.observe.history_rows import lasting, written_spans
from aggregator.observe.hub_status import EdgeStatus, FlowStatus, HubStatus, Trouble, edge_status
from aggregator.observe.survey import Survey, survey
from aggregator.observe.topics_without_rule import without_rule
from aggregator.observe.warnings import troubles
from aggregator.offsets.published_positions import group_positions
from aggregator.state.edge_status import EdgeState, EdgeStatuses, is_watched, read_edge_statuses
from aggregator.state.gap import Gap
from aggregator.state.names import HubNames, central_heartbeats
from aggregator.state.pauses import Pause
from aggregator.state.telemetry import SlotFeed
from aggregator.state.traffic import EdgeTraffic, Traffic
from aggregator.threads import map_concurrently

# So many telemetry records are read: those of many slots over some seconds, fields included.
_WORDS = 1000


def hub_status(config: HubConfig, *, now_ms: int) -> HubStatus:
    """Ask central and the edges once, and return the hub's status.

    Args:
        config: The hub's configuration.
        now_ms: The reader's present, in ms.

    Raises:
        Unreachable: central does not answer.
        FatalError: the ledger is damaged.
    """
    found = survey(config, now_ms=now_ms)
    holds = tuple(unsettled(found.gaps))
    holding = {gap.source: gap.gap for gap in holds}
    names = HubNames(config.hub)
    beats, statuses = _heartbeats(config), read_edge_statuses(config.central, names)
    watched = is_watched(config.central, names, statuses, wall_ms=now_ms)
    feed, at_s = _slot_feed(config, names)
    slots, traffic = feed.slots(at_s), feed.traffic if watched else Traffic()
    troubled = troubles(slots, statuses.refused)
    flows = _flows(found, holding, troubled, now_ms)
    central_ms = _central_ms(beats, statuses) if watched else now_ms
    edges = tuple(
        _edge(
            config,
            edge,
            flows[edge],
            statuses,
            watched=watched,
            answers=seen.logs is not None,
            trouble=seen.answer.trouble,
            beat_ms=beats.get(edge),
            now_ms=central_ms,
            pause=found.pauses.get(edge),
            moved=traffic.of(edge, at_s),
        )
        for edge, seen in found.edges.items()
    )
    return HubStatus(
        config.hub,
        central_ms,
        watched,
        edges,
        tuple(flow for shown in flows.values() for flow in shown),
        holds,
        tuple(lake_status(config)) if config.lake else (),
        _unfinished(config, names),
        statuses.threads,
        slots if watched else (),
        statuses.refused,
        waivers(config),
        drifts=drift(config, _answered(found)),
        clusters=found.clusters,
        groups=group_positions(config),
        objections=statuses.objections if watched else (),
        without_rule={
            edge: left for edge, seen in found.edges.items() if (left := without_rule(config, edge, seen.answer.topics))
        },
    )


def unread_status(config: HubConfig, why: str, *, now_ms: int) -> HubStatus:
    """The status if the hub's topics at central cannot be read: the edges, as one look shows them.

    Args:
        config: The hub.
        why: The error that central gave.
        now_ms: The reader's present, in ms.
    """

    def one(edge: str) -> EdgeStatus:
        seen = edge_snapshot(config, edge, {}, now_s=0.0, now_ms=now_ms)
        moved, answers = Traffic().of(edge, 0.0), seen.logs is not None
        return _edge(
            config,
            edge,
            (),
            EdgeStatuses(),
            watched=False,
            answers=answers,
            trouble=seen.answer.trouble,
            beat_ms=None,
            now_ms=now_ms,
            pause=None,
            moved=moved,
        )

    edges = tuple(map_concurrently(one, config.edges).values())
    return HubStatus(config.hub, now_ms, False, edges, (), (), (), waivers=waivers(config), unread=why)


def _flows(
    found: Survey, holding: Mapping[EdgePartition, Gap], troubled: Mapping[str, Trouble], now_ms: int
) -> dict[str, tuple[FlowStatus, ...]]:
    """The status of the flows of each edge."""
    return {
        edge: edge_flows(
            {source: entry for source, entry in found.ledger.items() if source.edge == edge},
            seen,
            tracks={},
            holding=holding,
            troubled=troubled,
            moment=ClockPair(0.0, now_ms),
        )
        for edge, seen in found.edges.items()
    }


def _answered(found: Survey) -> set[tuple[str, str]]:
    """Edge and topic of the flows whose edge answers."""
    return {
        (source.edge, source.topic) for source in found.ledger if (seen := found.edges.get(source.edge)) and seen.logs
    }


def _central_ms(beats: Mapping[str, int], statuses: EdgeStatuses) -> int:
    """While a hub pulses, central's own stamps tell the time, whatever this machine's clock says."""
    return max([*beats.values(), *([statuses.pulse_ms] if statuses.pulse_ms else [])])


def _unfinished(config: HubConfig, names: HubNames) -> tuple[Backfill, ...]:
    return tuple(one for one in read_backfills(config.central, names).values() if one.state is BackfillState.UNFINISHED)


def last_troubles(config: HubConfig, names: HubNames) -> dict[str, str]:
    """The reasons why flows are not read, by flow, as a hub said last; it may have stopped since.

    Raises:
        Unreachable: central does not answer.
    """
    feed, at_s = _slot_feed(config, names)
    found = troubles(feed.slots(at_s), read_edge_statuses(config.central, names).refused)
    return {source: why.text for source, why in found.items()}


def _slot_feed(config: HubConfig, names: HubNames) -> tuple[SlotFeed, float]:
    """The last words of the running hub's slots, by central's stamps, and the last of these stamps."""
    feed, at_s = SlotFeed(), 0.0
    for record in read_last(config.central, names.telemetry, _WORDS):
        at_s = record.timestamp_ms / 1000
        feed.ingest(record.value, at_s)
    return feed, at_s


def _heartbeats(config: HubConfig) -> dict[str, int]:
    """Arrival of each edge's last beat at central, in central's ms."""
    there = topics.topic_names(config.central)
    wanted = {central_heartbeats(edge): edge for edge in config.edges if central_heartbeats(edge) in there}
    found = last_timestamps(config.central, [(topic, 0) for topic in wanted], timeout_s=ends.TIMEOUT_S)
    return {wanted[topic]: timestamp for (topic, _), timestamp in found.items()}


def _edge(
    config: HubConfig,
    edge: str,
    flows: tuple[FlowStatus, ...],
    statuses: EdgeStatuses,
    *,
    watched: bool,
    answers: bool,
    trouble: str,
    beat_ms: int | None,
    now_ms: int,
    pause: Pause | None,
    moved: EdgeTraffic,
) -> EdgeStatus:
    age_ms = None if beat_ms is None else max(0, now_ms - beat_ms)
    state = statuses.states.get(edge) if watched else None
    if state is None:
        gaps = sum(flow.gap is not None for flow in flows)
        state = unwatched(config, answers=answers, trouble=trouble, age_ms=age_ms, gaps=gaps, pause=pause)
    objective = config.availability.objective / 100
    spans = lasting(written_spans(statuses.days, edge), statuses.states.get(edge) if watched else None, now_ms)
    return edge_status(
        edge,
        state,
        flows,
        uptimes(spans, now_ms=now_ms, objective=objective),
        since_ms=state.since_ms if watched else None,
        beat_age_ms=age_ms,
        moved=moved,
        rate_limit=config.edges[edge].rate_limit,
    )


def unwatched(
    config: HubConfig, *, answers: bool, trouble: str, age_ms: int | None, gaps: int, pause: Pause | None
) -> EdgeState:
    """The state of an edge that no hub watches: why it does not answer, and that nobody sends heartbeats.

    Args:
        config: The hub.
        answers: Whether the edge answered this look.
        trouble: Why it did not; empty if it did.
        age_ms: Time since its last heartbeat came.
        gaps: How many of its flows wait for a decision.
        pause: The newest pause or resumption.
    """
    seen = Observation(
        watched_s=float("inf"),
        answered_s=0.0 if answers else None,
        beat_s=None if age_ms is None else age_ms / 1000,
        beats=config.heartbeats.emit or age_ms is not None,
        gaps=gaps,
        trouble=trouble,
        paused=pause.sentence if pause else "",
    )
    state, reason = judge(seen, Patience(beat_s=config.heartbeats.interval.total_seconds()))
    if state is AvailabilityState.STALLED and config.heartbeats.emit:  # a running hub would send them
        reason = "the edge answers, and no hub runs that would send it heartbeats: aggregator run"
    return EdgeState(state.value, reason, 0)
