"""The monitor: watches a hub's edges and its topics at central all the time, judges, and keeps one frozen snapshot.

Invariants: the monitor never stops the hub. A cluster that does not answer is asked again; any other error goes to its
supervisor. The monitor of a running hub publishes the states that it finds, with their history, and writes nothing
else. Every other monitor shows those while they are published, else its own, and only reads.
"""

import logging
import threading
import time
from collections.abc import Collection, Iterable, Mapping
from functools import partial

from aggregator.backfill.monitor import BackfillWatch, Progress
from aggregator.config.model import HubConfig
from aggregator.config.waivers import waivers
from aggregator.coordinates import EdgePartition
from aggregator.edges.clock import CentralClock
from aggregator.edges.heartbeats import Heartbeat
from aggregator.edges.history import StateSpan, uptimes
from aggregator.errors import AggregatorError, RetryError
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.central_tails import CentralFeeds
from aggregator.observe.cluster_identities import ClusterIdentities
from aggregator.observe.edge_account import OLD_NEWS_S, ClockPair, EdgeAccount
from aggregator.observe.fields import TopicFields
from aggregator.observe.flow_status import edge_flows
from aggregator.observe.gaps import KnownGap, known_gaps, unsettled
from aggregator.observe.history_rows import lasting, written_spans
from aggregator.observe.hub_start import HubStart
from aggregator.observe.hub_status import EdgeStatus, FlowStatus, HubStatus, Trouble, edge_status
from aggregator.observe.lake_poller import LakePoller
from aggregator.observe.probe import EdgeProbe
from aggregator.observe.publisher import StatePublisher
from aggregator.observe.rates import Rates
from aggregator.observe.snapshot import Snapshot
from aggregator.observe.wanted_flows import WantedFlows
from aggregator.observe.warnings import Warnings, dead_letters, foreign, held_flows, level_of, troubles, warnings
from aggregator.replicate.discovery.edge_watch import EdgeAnswer, EdgeWatch
from aggregator.replicate.flow.cursor import Hold
from aggregator.state.edge_status import EdgeState
from aggregator.state.gap import Gap
from aggregator.state.telemetry import StandStill
from aggregator.threads import Pulse, Threads

TICK_S = 0.25
# Longer than all questions to central in one look together, with their time-outs.
MONITOR_BOUND_S = 120.0
# A look at thousands of flows takes a while: the monitor never takes more than a fifth of a core.
_REST = 4.0
_SNAPSHOT_EVERY_S = 1.0
# A snapshot that is taken early, because a state changed, covers too little time for a rate.
_RATE_EVERY_S = 0.9
_SLOW_EVERY_S = 10.0
_PULSE_FRESH_MS = 4000
# The monitor waits for central's first fresh stamp: two heartbeats after the old ones.
_CLOCK_S = OLD_NEWS_S + 2.0
_Flows = Mapping[str, tuple[FlowStatus, ...]]  # by edge
log = logging.getLogger(__name__)


class Monitor:
    """Watches the edges and central until `stop` is set.

    Args:
        config: The hub.
        stop: Ends the watching.
        threads: Threads of this process; they are part of the snapshots of the running hub's monitor.
        publish: Whether this is the monitor of the running hub: it writes the states, and warns in the log.
        number: Number of its first snapshot.
        watches: Of the edges, that somebody else keeps going; without them it has its own.

    Raises:
        Unreachable: central does not answer.
        FatalError: the ledger is damaged.
    """

    def __init__(
        self,
        config: HubConfig,
        stop: threading.Event,
        threads: Threads,
        *,
        publish: bool,
        number: int = 0,
        watches: Collection[EdgeWatch] = (),
    ) -> None:
        self._config = config
        self._ended = stop
        self._threads = threads
        self._waivers = waivers(config)
        self._number = number
        self._feeds = CentralFeeds(config, since_ms=utc_now_ms())
        self._identities = ClusterIdentities(config, self._feeds)
        self._clock = CentralClock()
        self._wanted = WantedFlows(config)
        judge = self._identities.judge
        self._own = () if watches else tuple(EdgeWatch(config, edge, judge, discovers=False) for edge in config.edges)
        self._probes = {
            watch.edge: EdgeProbe(config, watch, partial(self._wanted.of, watch.edge)) for watch in watches or self._own
        }
        self._ends_s = dict.fromkeys(config.edges, 0.0)
        self._rates = Rates()
        self._lake = LakePoller(config)
        self._backfills, self._seen_backfills = BackfillWatch(config), tuple[Progress, ...]()
        self._fields: Mapping[tuple[str, str], TopicFields] = {}
        self._slow_s = self._snapshot_s = self._rated_s = float("-inf")
        self._states: list[str] = []
        self._written: dict[str, tuple[StateSpan, ...]] = {}
        self._warned = Warnings()
        self._publisher = StatePublisher(config) if publish else None
        self._fresh = threading.Condition()
        self._latest: Snapshot | None = None
        self._began_s, self._stamp_ms, statuses = time.monotonic(), 0, self._feeds.statuses
        self._start = HubStart()
        self._accounts = {
            edge: EdgeAccount(
                config,
                edge,
                self._began_s,
                state=statuses.states.get(edge),
                spans=written_spans(statuses.days, edge),
            )
            for edge in config.edges
        }

    def latest(self) -> Snapshot | None:
        """The newest snapshot; None before the first, a second after the start."""
        return self._latest

    def wait_for_newer(self, number: int, timeout_s: float) -> Snapshot | None:
        """The newest snapshot as soon as its number is not `number`.

        Args:
            number: Number of the caller's snapshot; -1 for none.
            timeout_s: How long to wait for it.

        Returns:
            None where none came in time.
        """
        with self._fresh:
            self._fresh.wait_for(lambda: self._latest is not None and self._latest.number != number, timeout_s)
            return self._latest if self._latest and self._latest.number != number else None

    def publish_refused(self, holds: Iterable[Hold]) -> None:
        """Publish the flows that no slot gets in the epoch that begins."""
        if self._publisher:
            self._publisher.publish_refused({str(hold.source): (hold.reason, hold.detail) for hold in holds})

    def run(self, pulse: Pulse) -> None:
        """Watch the edges and central until the monitor is told to end.

        Args:
            pulse: Called at every look.

        Raises:
            AggregatorError: any error that is not a RetryError.
        """
        over = threading.Event()
        for watch in self._own:
            watch.start(self._threads)
        for probe in self._probes.values():
            probe.start(self._threads, over)
        self._lake.start(self._threads, over)
        try:
            while not self._ended.is_set():
                pulse()
                began = time.monotonic()
                try:
                    self._tick()
                except RetryError as error:
                    log.debug("the monitor looks again: %s", error.message)
                took_s = time.monotonic() - began
                self._ended.wait(max(TICK_S - took_s, _REST * took_s))
            if self._publisher:
                self._publisher.end(self._accounts, self._feeds.statuses, self._moment().now_ms)
        finally:
            over.set()
            for watch in self._own:
                watch.stop()

    def close(self) -> None:
        """Close the connections to central."""
        if self._publisher:
            self._publisher.close()
        self._feeds.close()
        self._backfills.close()

    def _moment(self) -> ClockPair:
        now_s = time.monotonic()
        return ClockPair(now_s, self._clock.now_ms(now_s, wall_ms=utc_now_ms()))

    def _tick(self) -> None:
        self._feeds.poll(time.monotonic(), self._beat)
        self._hear(self._feeds.statuses.pulse_ms or 0)
        self._wanted.ingest(self._feeds.ledger)
        moment = self._moment()
        if self._publisher:
            self._publisher.pulse(self._accounts, self._feeds.statuses, moment)
        if not self._clock.known and moment.now_s - self._began_s < _CLOCK_S:
            return
        seen = {edge: probe.snapshot for edge, probe in self._probes.items()}
        gaps = known_gaps(self._feeds.ledger, self._wanted.gaps(seen), tuple(self._feeds.decisions.values()))
        holding = {gap.source: gap.gap for gap in unsettled(gaps)}
        stopped = held_flows(self._feeds.slots(moment.now_s), self._refused_flows(moment))
        held = frozenset(map(EdgePartition.parse, stopped))
        busy = self._is_busy(moment)
        for edge, account in self._accounts.items():
            self._judge(edge, account, moment, holding, held, busy=busy)
        states = [self._state(edge, moment).state for edge in self._accounts]
        if states != self._states or moment.now_s - self._snapshot_s >= _SNAPSHOT_EVERY_S:
            self._slow_s = self._slow_s if states == self._states else float("-inf")
            self._snapshot_s, self._states = moment.now_s, states
            self._take(moment, gaps, holding)

    def _is_busy(self, moment: ClockPair) -> bool:
        """Whether the hub that this monitor belongs to still begins its newest epoch."""
        # Words of the former hub are there, too, and seem new when the watching begins.
        running = self._feeds.slots(moment.now_s, after_s=self._began_s + OLD_NEWS_S)
        control = self._feeds.control
        busy = self._start.is_busy(control.epoch_number, running, moment.now_s, ended=control.ended)
        return self._publisher is not None and busy

    def _beat(self, edge: str, beat: Heartbeat, stamp_ms: int) -> None:
        self._hear(stamp_ms)
        self._accounts[edge].add_heartbeat(beat, stamp_ms, time.monotonic())

    def _hear(self, stamp_ms: int) -> None:
        """Learn central's clock from a stamp that is new, and not from what lay there when the watching began."""
        now_s = time.monotonic()
        if stamp_ms > self._stamp_ms:
            self._stamp_ms = stamp_ms
            self._start.hear(now_s)
            if now_s - self._began_s > OLD_NEWS_S:
                self._clock = self._clock.with_stamp(stamp_ms, now_s)

    def _judge(
        self,
        edge: str,
        account: EdgeAccount,
        moment: ClockPair,
        holding: Mapping[EdgePartition, Gap],
        held: frozenset[EdgePartition],
        *,
        busy: bool,
    ) -> None:
        shown = self._probes[edge].snapshot
        if shown.answer.ends_s != self._ends_s[edge]:
            self._ends_s[edge] = shown.answer.ends_s
            account.add_samples(self._wanted.of(edge), shown)
        seen = account.observe(
            moment,
            shown,
            gaps=sum(source.edge == edge for source in holding),
            held=held | holding.keys(),
            pause=self._feeds.pauses.get(edge),
            limited=self._feeds.is_limited(edge, moment.now_s),
            hub_waits=self._start.waits(moment.now_s) if busy else "",
        )
        account.moved_bytes = self._feeds.moved(edge, moment.now_s)
        if account.judge(moment, seen, hub_busy=busy) and self._publisher:
            now = account.availability
            level = level_of(now.state, maintenance=account.maintenance)
            log.log(level, "edge %s is %s: %s", edge, now.state, now.reason)
            self._publisher.change(edge, account, self._feeds.statuses, moment.now_ms)

    def _take(self, moment: ClockPair, gaps: tuple[KnownGap, ...], holding: Mapping[EdgePartition, Gap]) -> None:
        feeds, slots = self._feeds, self._feeds.slots(moment.now_s)
        refused = self._refused_flows(moment)
        troubled = troubles(slots, refused)
        if moment.now_s - self._rated_s >= _RATE_EVERY_S:
            self._rated_s = moment.now_s
            self._rates.ingest({source: entry.delivered for source, entry in feeds.ledger.items()}, moment.now_s)
        flows = self._flows(moment, holding, troubled)
        if moment.now_s - self._slow_s >= _SLOW_EVERY_S:
            self._slow_s = moment.now_s
            self._fields = feeds.fields()
            self._written = {edge: written_spans(feeds.statuses.days, edge) for edge in self._accounts}
            if not self._start.waits(moment.now_s):  # what was said of the former epoch may be mended
                self._warn(gaps, flows, troubled)
        if self._publisher is None and self._is_published(moment):
            for edge, account in self._accounts.items():
                account.spans = lasting(self._written[edge], feeds.statuses.states.get(edge), moment.now_ms)
        backfills = self._look_at_backfills(moment.now_s)
        answers = {edge: probe.snapshot.answer for edge, probe in self._probes.items()}
        status = HubStatus(
            self._config.hub,
            moment.now_ms,
            self._is_published(moment),
            tuple(self._edge(edge, flows[edge], moment) for edge in self._accounts),
            tuple(flow for some in flows.values() for flow in some),
            tuple(unsettled(gaps)),
            self._lake.tables,
            self._backfills.unfinished(),
            self._threads.statuses() if self._publisher else feeds.statuses.threads,
            self._feeds.slots(moment.now_s),
            refused,
            self._waivers,
            clusters=self._identities.of(answers),
            objections=feeds.statuses.objections if self._is_published(moment) else (),
        )
        taken = Snapshot(
            self._latest.number + 1 if self._latest else self._number,
            moment.now_ms,
            status,
            epoch=feeds.control.epoch_number,
            driver=feeds.control.epoch.driver if feeds.control.epoch else "",
            slots=slots,
            backfilling=feeds.backfilling(moment.now_s),
            refused={EdgePartition.parse(source): StandStill(*why) for source, why in refused.items()},
            backfills=backfills,
            topics={edge: answer.topics for edge, answer in answers.items() if answer.topics},
            rates=self._rates.flows(),
            throughput=self._rates.edges(),
            letters=dict(feeds.letters),
            fields=self._fields,
            gaps=gaps,
            pauses=dict(feeds.pauses),
            damaged=feeds.damaged(),
            history={edge: account.spans for edge, account in self._accounts.items()},
            watched_ms=_watched_ms(answers, moment),
        )
        with self._fresh:
            self._latest = taken
            self._fresh.notify_all()

    def _look_at_backfills(self, now_s: float) -> tuple[Progress, ...]:
        """Backfills as they are now. If they cannot be read, the last answer stays, and the edges are watched on."""
        try:
            self._seen_backfills = self._backfills.poll(now_s)
        except RetryError as error:
            log.debug("backfills are looked at again: %s", error.message)
        except AggregatorError as error:  # a damaged record; the next look goes on after it
            log.warning("%s", error)
        return self._seen_backfills

    def _refused_flows(self, moment: ClockPair) -> Mapping[str, tuple[str, str]]:
        """The flows that the running hub gave to no slot."""
        return self._feeds.statuses.refused if self._is_published(moment) else {}

    def _is_published(self, moment: ClockPair) -> bool:
        pulse_ms = self._feeds.statuses.pulse_ms
        return self._publisher is not None or (pulse_ms is not None and moment.now_ms - pulse_ms <= _PULSE_FRESH_MS)

    def _flows(
        self, moment: ClockPair, holding: Mapping[EdgePartition, Gap], troubled: Mapping[str, Trouble]
    ) -> _Flows:
        return {
            edge: edge_flows(
                self._wanted.of(edge),
                self._probes[edge].snapshot,
                tracks=account.tracks,
                holding=holding,
                troubled=troubled,
                moment=moment,
            )
            for edge, account in self._accounts.items()
        }

    def _state(self, edge: str, moment: ClockPair) -> EdgeState:
        """An edge's state: the running hub's word, or what this watching found."""
        own = self._accounts[edge].state()
        if self._publisher is None and self._is_published(moment):
            return self._feeds.statuses.states.get(edge, own)
        return own

    def _edge(self, edge: str, flows: tuple[FlowStatus, ...], moment: ClockPair) -> EdgeStatus:
        account = self._accounts[edge]
        state = self._state(edge, moment)
        age_s = account.beat_age_s(moment)
        return edge_status(
            edge,
            state,
            flows,
            uptimes(account.spans, now_ms=moment.now_ms, objective=self._config.availability.objective / 100),
            since_ms=state.since_ms,
            beat_age_ms=None if age_s is None else int(age_s * 1000),
            moved=account.moved_bytes,
            rate_limit=self._config.edges[edge].rate_limit,
        )

    def _warn(self, gaps: tuple[KnownGap, ...], flows: _Flows, troubled: Mapping[str, Trouble]) -> None:
        if self._publisher:
            stands = {str(flow.source): flow.trouble for some in flows.values() for flow in some if flow.trouble}
            texts = {source: why.text for source, why in troubled.items()} | stands
            logs = {edge: seen for edge, probe in self._probes.items() if (seen := probe.snapshot.logs)}
            warning_ms = int(self._config.replication.retention_warning.total_seconds() * 1000)
            found = warnings(logs, list(unsettled(gaps)), texts, warning_ms=warning_ms)
            self._warned.say(found | foreign(self._feeds.damaged()) | dead_letters(self._feeds.fresh_letters))


def _watched_ms(answers: Mapping[str, EdgeAnswer], moment: ClockPair) -> dict[str, int]:
    """The time of each edge's last answer, by central's clock."""
    return {
        edge: moment.now_ms - int((moment.now_s - answer.answered_s) * 1000)
        for edge, answer in answers.items()
        if answer.answered_s
    }
