"""The driver is the process of a hub that holds the lease, watches the edges and runs one epoch after another.

Invariants (protocol): B, the process calls `init_transactions` once, and again only if what its client signs in with
was renewed (`leadership/kafka_central.py`). E, after a slot was fenced, the driver opens a new epoch only when it has
written its own lease successfully. A fenced driver ends with exit code 6 if it sees another driver, and with 1
otherwise. The driver reads the lease *before* it takes the transactional id, so starting a hub twice does no harm.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Partition
from aggregator.kafka.cluster import topics
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.discovery import unanswered_holds
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.epoch.epochs import EpochResult, EpochRunner
from aggregator.replicate.epoch.policy_changes import record_policies
from aggregator.replicate.epoch.policy_holder import PolicyHolder
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.heartbeats import HeartbeatEmitter
from aggregator.replicate.identity.clusters import ClusterGuard
from aggregator.replicate.identity.identities import identify
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.leadership import await_lease, hold_leadership, run_epochs
from aggregator.replicate.leadership.lease import ANOTHER_HUB_HINT
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.slot.key_checks import Checks, new_checks, require_unreplaced
from aggregator.replicate.slot.plan import SlotResult
from aggregator.replicate.warmup import WorkerWarmup
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from aggregator.threads import Pulse, Threads

_FIRST_LOOK_S = 5.0
_TICK_S = 0.1
# A topic that was just created usually gets its leaders within this time.
_AGAIN_S = 1.0
# Longer than an epoch takes to open before that is an error, and longer than slots take to end.
_BOUND_S = 180.0


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a finished run.

    Attributes:
        holds: Flows that stood still at the end.
        undrained: Flows whose edge stayed silent during `--drain`.
        silent: Reasons why edges never told their topics, by edge.
        undecided: Offsets of flows that open transactions kept from every reader when `--drain` began.
        undecided_partitions: Those of central in which a transaction is undecided: nobody sees all that was delivered.
        foreign_clusters: Reasons why edges are not read whose names lead to another cluster than before.
    """

    holds: tuple[Hold, ...] = ()
    undrained: tuple[EdgePartition, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    undecided: Mapping[EdgePartition, int] = field(default_factory=dict)
    undecided_partitions: tuple[Partition, ...] = ()
    foreign_clusters: tuple[str, ...] = ()


class Driver:
    """Runs the driver process of a hub.

    Args:
        config: The hub.
        spark: Spark session in which the slots run.
        policies: Policies of the rules, by path.
        identity: Unique name of this process, shown to whoever starts a second one.
        drain: End when everything that existed at the start is at central.
        stop: Set from outside (SIGTERM) to end cleanly.
        threads: Threads of this process.
        on_leadership: Called once when this process has the lease and the id, with the watches of its edges.
        on_refused: Called at the begin of every epoch with the flows that no slot gets.
    """

    def __init__(
        self,
        config: HubConfig,
        spark: SparkSession,
        policies: Mapping[Path, Policy],
        *,
        identity: str,
        drain: bool,
        stop: threading.Event,
        threads: Threads,
        on_leadership: Callable[[Collection[EdgeWatch]], None] = lambda _: None,
        on_refused: Callable[[Sequence[Hold]], None] = lambda _: None,
    ) -> None:
        self._config = config
        self._spark = spark
        self._policy_holder = PolicyHolder(policies)
        self._identity = identity
        self._drain = drain
        self._stop = stop
        self._threads = threads
        self._on_leadership = on_leadership
        self._on_refused = on_refused
        self._names = HubNames(config.hub)
        self._guard = ClusterGuard()
        self._watches = [EdgeWatch(config, edge, self._guard.judge) for edge in config.edges]
        self._warming = WorkerWarmup(spark, config.replication.slots)

    def run(self, *, standby: bool = False, take_over: bool = False) -> RunReport:
        """Replicate until stopped, or until drained.

        Args:
            standby: Wait for a running hub to stop.
            take_over: Replace a running hub at once.

        Raises:
            AnotherHub: another hub of this name runs, or took over.
            ConfigError: a key is another one than this hub has used under its name and version; central is another
                cluster than the one that its topics of this hub were written at.
            FatalError: central gives topics no ids, slots failed again and again, or the driver lost its own id for no
                visible reason.
            Unreachable: central does not answer.
        """
        self._warming.start(self._threads)
        topics.ensure(
            self._config.central,
            internal_topics(self._names, self._config.replication.slots),
            replication_factor=self._config.replication_factor,
        )
        topics.require_ids(self._config.central, [self._names.control])
        central = KafkaDriverCentral(self._config, self._names)
        try:
            if not take_over:
                what = f"another hub named {self._config.hub}"
                await_lease(central, what, standby=standby, stop=self._stop, hint=ANOTHER_HUB_HINT)
            if self._stop.is_set():
                return RunReport()
            with self._threads.watching("driver", _BOUND_S) as pulse:
                return self._lead(central, pulse)
        finally:
            central.close()

    def replace_policies(self, policies: Mapping[Path, Policy]) -> None:
        """Use these policies from the next epoch on, which begins at once."""
        self._policy_holder.replace(policies)

    def _lead(self, central: KafkaDriverCentral, pulse: Pulse) -> RunReport:
        state = central.read_control()
        before = state.epoch_number
        require_unreplaced(self._config.keys, state.keys)  # a hub with a replaced key must not take over
        identify(self._guard, self._config, state.clusters, central.read_requests().acceptances)
        renewal = LeaseRenewal(central, self._identity)
        emitter = HeartbeatEmitter(self._config, self._guard.is_known)
        runner = EpochRunner(
            self._config,
            self._spark,
            self._policy_holder,
            central,
            renewal,
            watches=self._watches,
            guard=self._guard,
            identity=self._identity,
            drain=self._drain,
            stop=self._stop,
            on_refused=self._on_refused,
            threads=self._threads,
            pulse=pulse,
        )
        newest = partial(_newest, runner, before)
        try:
            with hold_leadership(
                central, renewal, self._watches, self._threads, identity=self._identity, epoch_number=newest
            ):
                runner.checks = self._record_keys(central)
                record_policies(self._config, self._policy_holder.policies, by=self._identity)
                emitter.start(self._threads)
                self._on_leadership(self._watches)
                result = self._epochs(runner, renewal)
        finally:
            emitter.stop()
        undrained = tuple(flow for outcome in result.outcomes for flow in outcome.undrained)
        open_at_edges = self._undecided() if self._drain else {}
        foreign_clusters = tuple(watch.answer.foreign for watch in self._watches if watch.answer.foreign)
        undecided_partitions = tuple(sorted(result.undecided))
        silent = {watch.edge: watch.answer.trouble for watch in self._untold()}
        return RunReport(result.holds, undrained, silent, open_at_edges, undecided_partitions, foreign_clusters)

    def _record_keys(self, central: KafkaDriverCentral) -> Checks:
        """Record the check values of new keys at central before the first record, while no other process writes."""
        recorded = dict(central.read_control().keys)
        for check in new_checks(self._config.keys, recorded):
            central.publish(check)
            recorded[check.name, check.version] = check.check
        return recorded

    def _epochs(self, runner: EpochRunner, renewal: LeaseRenewal) -> EpochResult:
        began = time.monotonic()
        while self._untold() and time.monotonic() - began < _FIRST_LOOK_S and not self._stop.is_set():
            time.sleep(_TICK_S)
        self._warming.wait(self._stop)

        def is_last(result: EpochResult) -> bool:
            return self._is_over(result, began)

        found = run_epochs(
            runner.run, renewal, self._stop, trouble=EpochResult.trouble, is_last=is_last, hint="mend it, start again"
        )
        return found or EpochResult((), ())

    def _is_over(self, result: EpochResult, began: float) -> bool:
        """With `--drain`: whether this epoch was the last. What central does not decide ends it, too, after a while."""
        if not self._drain or self._await_central(result, began):
            return False
        done = result.all(SlotResult.DRAINED) or bool(result.undecided)
        return done and self._await_edges(began)

    def _await_central(self, result: EpochResult, began: float) -> bool:
        """With `--drain`: pause and return whether another epoch shall try what central had not decided."""
        patience_s = self._config.replication.drain_patience.total_seconds()
        if not result.undecided and all(hold.reason is not HoldReason.UNDECIDED for hold in result.refused):
            return False
        return time.monotonic() - began < patience_s and not self._stop.wait(_AGAIN_S)

    def _await_edges(self, began: float) -> bool:
        """Wait with `--drain` for silent edges for the rest of the patience; return False when one of them answers."""
        patience_s = self._config.replication.drain_patience.total_seconds()
        waiting = self._waiting()
        while waiting and time.monotonic() - began < patience_s and not self._stop.is_set():
            time.sleep(_TICK_S)
            if self._waiting() != waiting:
                return False
        return True

    def _waiting(self) -> list[str]:
        shown = {watch.edge: watch.shown for watch in self._watches if watch.shown is not None}
        return [*(watch.edge for watch in self._untold()), *(str(hold.source) for hold in unanswered_holds(shown))]

    def _undecided(self) -> dict[EdgePartition, int]:
        return {
            EdgePartition(watch.edge, topic.name, partition): offsets
            for watch in self._watches
            for topic in (watch.topics or {}).values()
            for partition, offsets in enumerate(topic.undecided)
            if offsets
        }

    def _untold(self) -> list[EdgeWatch]:
        """The watches of edges whose topics are not known yet."""
        return [watch for watch in self._watches if watch.topics is None and not watch.answer.foreign]


def _newest(runner: EpochRunner, before: int) -> int:
    """The number of the newest epoch that this driver knows."""
    return runner.opened.epoch if runner.opened else before
