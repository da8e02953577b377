"""Keeps the account of one edge: its heartbeats, its movement, its state and its history, updated with every look.

Invariant: this module reads no clock and asks no cluster. Everything that it knows came in through its methods,
together with the moment.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.config.model import EdgeConfig, HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import Availability, AvailabilityState, Observation, Patience, judge
from aggregator.edges.heartbeats import Heartbeat
from aggregator.edges.history import StateSpan, bounded, kept, recorded
from aggregator.edges.maintenance import in_maintenance
from aggregator.edges.movement import FlowSample, Movement, Track
from aggregator.observe.edge_snapshot import EdgeSnapshot
from aggregator.observe.formatting import per_second
from aggregator.state.edge_status import EdgeState
from aggregator.state.ledger import LedgerRecord
from aggregator.state.pauses import Pause
from aggregator.state.traffic import MAX_COUNT, EdgeTraffic

# Records that lay at central before arrive so soon after the watching began. They say nothing about the present.
OLD_NEWS_S = 2.0
# The history of an edge that flaps for a month is kept in coarser spans.
_MAX_SPANS = 2000


@dataclass(frozen=True, slots=True)
class ClockPair:
    """A moment on both clocks: the watcher's, which only goes forward, and central's."""

    now_s: float
    now_ms: int


class EdgeAccount:
    """Keeps the account of one edge.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        began_s: When the watching began, on the watcher's clock.
        state: Its state when the last hub stopped watching.
        spans: Its history until then.
    """

    def __init__(
        self, config: HubConfig, edge: str, began_s: float, *, state: EdgeState | None, spans: tuple[StateSpan, ...]
    ) -> None:
        self.spans = spans
        self.availability = _restored(state)
        self.maintenance = False
        self.beat_ms: int | None = None
        self.latency_ms: int | None = None
        self.skew_ms: int | None = None
        self.tracks: dict[EdgePartition, Track] = {}
        self.moved_bytes, self._before = EdgeTraffic(), (state.read_bytes, state.written_bytes) if state else (0, 0)
        self._hub = config.hub
        self._edge: EdgeConfig = config.edges[edge]
        self._emits = config.heartbeats.emit
        self._patience = Patience(beat_s=config.heartbeats.interval.total_seconds())
        self._began_s = self._looked_s = began_s
        self._beat_came = False
        self._busy_until_s = began_s

    def add_heartbeat(self, beat: Heartbeat, stamp_ms: int, now_s: float) -> None:
        """Take a beat that arrived at `stamp_ms` by central's clock; its own timestamp is shown, not trusted."""
        fresh = self.beat_ms is None or stamp_ms > self.beat_ms
        # Heartbeats that were there when the watching began arrive all at once.
        self._beat_came = self._beat_came or (fresh and now_s - self._began_s > OLD_NEWS_S)
        self.beat_ms = max(stamp_ms, self.beat_ms or stamp_ms)
        if self._emits and beat.source == self._hub:
            self.latency_ms = stamp_ms - beat.timestamp_ms
        else:  # written near the edge, by the edge's clock or by one beside it
            self.skew_ms = beat.timestamp_ms - stamp_ms

    def add_samples(self, entries: Mapping[EdgePartition, LedgerRecord], seen: EdgeSnapshot) -> None:
        """The edge showed its ends, beside these positions."""
        if seen.skew_ms is not None:
            self.skew_ms = seen.skew_ms
        self.tracks = {
            source: self.tracks.get(source, Track(incarnation_of(entry))).with_sample(
                incarnation_of(entry), FlowSample(seen.answer.ends_s, entry.next_offset, seen.answer.ends[source])
            )
            for source, entry in entries.items()
            if source in seen.answer.ends
        }

    def beat_age_s(self, moment: ClockPair) -> float | None:
        """The seconds since the last heartbeat arrived."""
        return None if self.beat_ms is None else max(0.0, (moment.now_ms - self.beat_ms) / 1000)

    def observe(
        self,
        moment: ClockPair,
        seen: EdgeSnapshot,
        *,
        gaps: int,
        held: frozenset[EdgePartition],
        pause: Pause | None,
        limited: bool = False,
        hub_waits: str = "",
    ) -> Observation:
        """The observation by which the edge's availability is judged.

        Args:
            moment: The present.
            seen: The last snapshot of the edge.
            gaps: How many flows an open gap holds.
            held: Flows that stand still for a reason that is known.
            pause: The newest pause or resumption.
            limited: Whether its `rate_limit` holds something back.
            hub_waits: Why no slot can deliver anything now; empty: each can.
        """
        paused = pause is not None and pause.paused
        if self.availability.state is AvailabilityState.PAUSED and not paused:  # its next first beat is still to come
            self._began_s, self._beat_came = moment.now_s - OLD_NEWS_S, False
        moving = {source: track for source, track in self.tracks.items() if source not in held}
        expiring = self._expiring(moment, seen, moving)
        watched_s = moment.now_s - self._began_s
        # A busy machine reads old heartbeats late. Only a stamp after the beginning of the watching counts as new.
        beat_came = self._beat_came and (self.beat_ms or 0) > moment.now_ms - watched_s * 1000
        return Observation(
            watched_s=watched_s,
            answered_s=None if seen.answer.answered_s is None else moment.now_s - seen.answer.answered_s,
            beat_s=self.beat_age_s(moment),
            beat_came=beat_came,
            beats=self._emits or self._beat_came,
            movement=Movement.of(moving.values()),
            gaps=gaps,
            expiring_flows=len(expiring),
            left_s=min(expiring, default=0.0),
            trouble=seen.answer.trouble,
            paused=pause.sentence if pause else "",
            limited=f"waits for its rate_limit: limited to {per_second(self._edge.rate_limit)}" if limited else "",
            hub_waits=hub_waits,
        )

    @staticmethod
    def _expiring(moment: ClockPair, seen: EdgeSnapshot, moving: Mapping[EdgePartition, Track]) -> list[float]:
        """Seconds until the edge deletes unread records, of the flows that will not have read them by then."""
        if seen.logs is None or seen.logs_s is None:
            return []
        since_s = moment.now_s - seen.logs_s
        left = {
            source: max(0.0, margin.left_ms / 1000 - since_s)
            for source, margin in seen.logs.margins.items()
            if source in moving and margin.is_short(0)
        }
        return [
            left_s
            for source, left_s in left.items()
            if (moving[source].is_behind() or moving[source].is_stuck()) and moving[source].drains_s > left_s
        ]

    def judge(self, moment: ClockPair, seen: Observation, *, hub_busy: bool = False) -> bool:
        """Take the next finding into state and history.

        Args:
            moment: Now.
            seen: What was observed.
            hub_busy: No slot can read now, because the hub itself starts or changes its epoch: what only comes through
                slots is not charged to the edge then, nor while a state needs to settle after it.

        Returns:
            Whether the state changed.
        """
        if hub_busy:
            self._busy_until_s = moment.now_s + self._patience.stalled_s + self._patience.settle_s
        before = self.availability.state, self.maintenance
        if self.availability.state is not None:
            spans = recorded(
                kept(self.spans, moment.now_ms),
                self.availability.state,
                from_ms=moment.now_ms - int((moment.now_s - self._looked_s) * 1000),
                now_ms=moment.now_ms,
                excused=self.maintenance or (moment.now_s < self._busy_until_s and self._is_stalled),
            )
            self.spans = bounded(spans, _MAX_SPANS)
        self._looked_s = moment.now_s
        self.availability = self.availability.with_finding(
            judge(seen, self._patience),
            now_s=moment.now_s,
            now_ms=moment.now_ms,
            settle_s=self._patience.settle_s,
        )
        self.maintenance = in_maintenance(self._edge.maintenance, moment.now_ms)
        return before != (self.availability.state, self.maintenance)

    @property
    def _is_stalled(self) -> bool:
        return self.availability.state is AvailabilityState.STALLED

    def state(self) -> EdgeState:
        """The state as it is written to central."""
        now = self.availability
        state, reason = (now.state, now.reason) if now.state else (AvailabilityState.LAGGING, "nobody has looked yet")
        read, written = self._before[0] + self.moved_bytes.read_bytes, self._before[1] + self.moved_bytes.written_bytes
        clocks = (self.skew_ms, self.latency_ms)
        return EdgeState(
            state.value, reason, now.since_ms, self.maintenance, *clocks, min(read, MAX_COUNT), min(written, MAX_COUNT)
        )


def incarnation_of(entry: LedgerRecord) -> tuple[int, str]:
    """The incarnation and topic id that a position belongs to."""
    return entry.incarnation, entry.topic_id


def _restored(state: EdgeState | None) -> Availability:
    if state is None or state.state not in set(AvailabilityState):
        return Availability()
    return Availability(AvailabilityState(state.state), state.reason, state.since_ms)
