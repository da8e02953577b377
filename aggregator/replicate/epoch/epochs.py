"""The driver runs epochs: it plans each from fresh snapshots, runs the slots on Spark, and ends it after a change.

Invariant: while slots run, the driver watches, and gives them topics that are new. Other changes at the edges and
people's requests end an epoch.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from pyspark.sql import SparkSession

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Partition, format_flows
from aggregator.engine.collector import gc_disabled
from aggregator.machine_clock import utc_now_ms
from aggregator.replicate.discovery.central_topics import Snapshots, targets
from aggregator.replicate.discovery.compacted_keys import losing_keys
from aggregator.replicate.discovery.discovery import drop_unanswered, unanswered_holds
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, start_of
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.discovery.target_topics import TargetTopics
from aggregator.replicate.epoch.additions import RunningFlows
from aggregator.replicate.epoch.edge_follower import EdgeFollower
from aggregator.replicate.epoch.key_usage import usage_warnings
from aggregator.replicate.epoch.opening import Opened, open_epoch
from aggregator.replicate.epoch.plan import EpochFlows, plan_flows, undecided_elsewhere
from aggregator.replicate.epoch.policy_changes import record_policies
from aggregator.replicate.epoch.policy_holder import Policies, PolicyHolder
from aggregator.replicate.epoch.shares import limits_of, shares
from aggregator.replicate.epoch.slot_job import run_slot_job
from aggregator.replicate.epoch.takeover import Takeovers, WorkerWatch, take_over, takeover_lines
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.identity.clusters import ClusterGuard, ClusterIds
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.leadership.settlement import TransactionOwner, UndecidedWatch
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.key_checks import Checks, checks_of
from aggregator.replicate.slot.plan import SlotOutcome, SlotPlan, SlotResult
from aggregator.replicate.slot.task import EpochWork
from aggregator.state.control import Epoch
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from aggregator.state.pauses import paused_edges
from aggregator.state.requests import Requests
from aggregator.threads import Pulse, Threads

_GREATEST_AGE_S, _REFUSED_AGE_S = 1800.0, 300.0
# Each question takes a tenth of a millisecond, and an epoch of any size has to open at once.
_MAX_ASKED = 500
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EpochResult:
    """Tells how an epoch's slots ended, which flows were refused before the start, and which partitions were held."""

    outcomes: tuple[SlotOutcome, ...]
    refused: tuple[Hold, ...]
    held: frozenset[Partition] = frozenset()

    @property
    def holds(self) -> tuple[Hold, ...]:
        """Every flow that stood still, with its reason."""
        return self.refused + tuple(hold for outcome in self.outcomes for hold in outcome.holds)

    @property
    def undecided(self) -> frozenset[Partition]:
        """Central's partitions in which something is still undecided, which no reader sees yet."""
        return self.held.union(*(outcome.undecided_partitions for outcome in self.outcomes))

    def trouble(self) -> str:
        """What went wrong, slot by slot, in one line; empty if every slot ended by the protocol."""
        if self.all(SlotResult.STOPPED, SlotResult.DRAINED):
            return ""
        return "; ".join(f"slot {one.slot} {one.result} {one.detail}".strip() for one in self.outcomes)

    def all(self, *results: SlotResult) -> bool:
        """Whether every slot ended with one of these results."""
        return all(outcome.result in results for outcome in self.outcomes)


class EpochRunner:
    """Runs epochs for one driver."""

    def __init__(
        self,
        config: HubConfig,
        spark: SparkSession,
        policy_holder: PolicyHolder,
        central: KafkaDriverCentral,
        renewal: LeaseRenewal,
        *,
        watches: Sequence[EdgeWatch],
        guard: ClusterGuard,
        identity: str,
        drain: bool,
        stop: threading.Event,
        on_refused: Callable[[Sequence[Hold]], None],
        threads: Threads,
        pulse: Pulse,
    ) -> None:
        self._config = config
        self._spark = spark
        self._policy_holder = policy_holder
        self._policies = policy_holder.policies
        self._central = central
        self._renewal = renewal
        self._watches = watches
        self._guard = guard
        self._identity = identity
        self._drain = drain
        self._stop = stop
        self._on_refused = on_refused
        self._threads = threads
        self._pulse = pulse
        self._names = HubNames(config.hub)
        self._topics = TargetTopics(config)
        self.checks: Checks = {}
        self._known: set[str] = set()
        self._paused: frozenset[str] = frozenset()
        self._outdated = False
        self.opened: Epoch | None = None
        self._named: set[Partition] = set()  # partitions with undecided records at the last look
        self._written: set[Partition] = set()  # by the slots of this driver or of earlier drivers

    def run(self) -> EpochResult:
        """Open one epoch and watch it to its end.

        Raises:
            ConfigError: a key was replaced under its name and version, or has sealed as much as it may.
            Fenced: another driver took over.
            Unreachable: central does not answer.
        """
        policies = self._record_policies()
        self.checks = checks_of(self._config.keys, self.checks)
        shown, clusters = self._identify_edges()
        snapshots = {edge: one.topics for edge, one in shown.items()}
        settings, places = self._topics.ensure(snapshots)
        count = self._config.replication.slots
        epoch, ledger, undecided = self._open_epoch(count, places, snapshots)
        for sentence in usage_warnings(self._config.keys, ledger.values()):
            log.warning("use of keys: %s", sentence)
        unsettled = UndecidedWatch(self._central, undecided)
        now_ms = utc_now_ms()
        requests = self._read_requests()
        read = {edge: one for edge, one in snapshots.items() if edge not in self._paused}
        begun = self._take_over(drop_unanswered(ledger, shown), read)
        leaving = WorkerWatch(self._config.central, begun.groups)
        with gc_disabled():
            flows = plan_flows(
                self._config,
                drop_unanswered(ledger, shown),
                begun.snapshots,
                settings,
                epoch=epoch.epoch,
                drain=self._drain,
                now_ms=now_ms,
                decisions=requests.decisions,
                refused=losing_keys(self._config, policies, snapshots, settings, now_ms=now_ms),
                undecided=undecided,
                elsewhere=self._undecided_former_topics(snapshots, undecided),
            )
        holds = (*flows.holds, *unanswered_holds(shown), *self._foreign_cluster_holds(ledger))
        self._report_holds(holds)
        log.info("epoch %d: %d flows on %d slots", epoch.epoch, sum(map(len, flows.by_slot.values())), count)
        plans = self._slot_plans(epoch.epoch, flows, count)
        work = EpochWork(self._config, policies, plans, frozenset(settings), self.checks, clusters)
        opened_s, running = time.monotonic(), RunningFlows.of(epoch.epoch, count, flows, ledger, settings)
        follower = self._follower(policies, running, shown)

        def is_due() -> bool:
            self._pulse()
            old = not self._drain and is_old(time.monotonic() - opened_s, refused=bool(holds))
            changed = (
                follower.has_to_end(self._discovered_topics())
                or self._has_new_requests()
                or unsettled.poll_decided()
                or leaving.poll_left()
            )
            changed |= self._policy_holder.policies is not policies
            return self._stop.is_set() or old or changed

        outcomes = run_slot_job(self._spark, work, self._central, self._renewal, threads=self._threads, is_due=is_due)
        self._named |= {at for outcome in outcomes for at in outcome.undecided_partitions}
        return EpochResult(tuple(outcomes), holds, frozenset(undecided))

    def _follower(
        self, policies: Policies, running: RunningFlows, shown: Mapping[str, DiscoveredTopics]
    ) -> EdgeFollower:
        return EdgeFollower(
            self._config,
            self._central,
            self._topics,
            policies,
            running,
            shown=shown,
            drain=self._drain,
            paused=self._paused,
        )

    def _read_requests(self) -> Requests:
        """What people have decided by now; only a later request outdates this epoch."""
        requests = self._central.read_requests()
        self._guard.accept(requests.acceptances)
        for sentence in requests.damaged:
            log.warning("requests: %s", sentence)
        self._known, self._outdated = {decision.key for decision in requests.decisions}, False
        self._paused = paused_edges(requests.pauses.values())
        for edge in sorted(self._paused & self._config.edges.keys()):
            log.warning("edge %s is paused by %s: %s", edge, requests.pauses[edge].by, requests.pauses[edge].reason)
        return requests

    def _take_over(self, ledger: Mapping[EdgePartition, LedgerRecord], snapshots: Snapshots) -> Takeovers:
        found = take_over(self._config, ledger, snapshots, fences=True)
        for sentence in takeover_lines(found.topics):
            log.info("takeover: %s", sentence)
        return found

    def _report_holds(self, holds: Sequence[Hold]) -> None:
        for flows, why in group_holds_by_reason(holds):
            log.warning("%s held: %s", flows, why)
        self._on_refused(holds)

    def _record_policies(self) -> Policies:
        """The policies of this epoch, and record them as a start does."""
        policies = self._policy_holder.policies
        if policies is not self._policies:
            record_policies(self._config, policies, by=self._identity)
            self._policies = policies
        return policies

    def _identify_edges(self) -> tuple[dict[str, DiscoveredTopics], ClusterIds]:
        """The topics of edges whose own clusters answer, and the cluster ids, once these are kept at central."""
        shown = self._discovered_topics()
        fresh = self._guard.unpublished_clusters()
        if fresh:
            self._central.publish(*fresh)
            self._guard.keep(fresh)
        for one in fresh:
            cluster = f"cluster {one.cluster_id}" if one.cluster_id else "a cluster without an id: it may be any"
            log.info("%s is %s", one.edge or "central", cluster)
        clusters = self._guard.ids  # read last: a foreign cluster may have answered meanwhile
        return {edge: one for edge, one in shown.items() if edge in clusters.edges}, clusters

    def _foreign_cluster_holds(self, ledger: Mapping[EdgePartition, LedgerRecord]) -> list[Hold]:
        """Holds for flows of edges whose names lead to another cluster than before."""
        why = {watch.edge: watch.answer.foreign for watch in self._watches if watch.answer.foreign}
        return [
            Hold(source, HoldReason.CLUSTER, why[source.edge])
            for source in sorted(ledger.keys() if why else ())
            if source.edge in why and start_of(self._config, source.edge, source.topic) is not None
        ]

    def _open_epoch(self, slots: int, partitions: Collection[Partition], snapshots: Snapshots) -> Opened:
        """Open an epoch that writes these partitions of central, and say which of them it may not.

        A driver's first epoch asks about every partition that was ever written, by former rules too. Where these are
        very many, later epochs ask only about those that slots named. A slot looks before it writes, and names at its
        end what is undecided.
        """
        now = {*partitions, (self._names.dead_letters, 0)}
        if self.opened is None:
            self._written |= {*self._central.partitions({one.central for one in self._central.read_control().targets})}
        self._written |= now
        opened = open_epoch(
            self._central,
            slots=slots,
            driver=self._identity,
            partitions=self._written,
            owner=TransactionOwner.of_live_flows(self._names),
            targets=targets(self._config, snapshots),
            asked=partitions_to_check(now, self._named, is_first=self.opened is None),
            above=self.opened.epoch if self.opened else -1,
        )
        self.opened, self._named = opened.epoch, set(opened.held)
        for reason in opened.held.values():
            log.warning("held at central: %s", reason)
        return opened

    def _undecided_former_topics(
        self, snapshots: Snapshots, undecided: Mapping[Partition, str]
    ) -> dict[tuple[str, str], str]:
        if not undecided:
            return {}
        noted = self._central.read_control().targets
        return undecided_elsewhere(targets(self._config, snapshots), noted, undecided, self._names.dead_letters)

    def _discovered_topics(self) -> dict[str, DiscoveredTopics]:
        return {watch.edge: watch.shown for watch in self._watches if watch.shown is not None}

    def _slot_plans(self, epoch: int, flows: EpochFlows, count: int) -> tuple[SlotPlan, ...]:
        replication = self._config.replication
        policy = CommitPolicy(replication.commit_interval.total_seconds(), replication.commit_bytes)
        patience_s = replication.drain_patience.total_seconds()
        rates = shares(limits_of(self._config), {slot: own.sources for slot, own in flows.by_slot.items()})
        owner, common = (self._names, epoch, self._identity), (policy, self._drain, patience_s)
        return tuple(
            SlotPlan(*owner, slot, flows.by_slot.get(slot, ()), *common, rates=rates.get(slot, {}))
            for slot in range(count)
        )

    def _has_new_requests(self) -> bool:
        """Whether a person asked for something that the running slots do not know."""
        asked = self._central.poll_requests()
        for sentence in asked.damaged:
            log.warning("requests: %s", sentence)
        for edge, pause in asked.pauses.items():
            self._outdated |= pause.paused != (edge in self._paused)
        for word in self._guard.accept(asked.acceptances):
            name, new = word.edge or "central", word.cluster_id
            log.warning("%s is cluster %s from now on, by %s: %s", name, new, word.by, word.reason)
        fresh = [one for one in asked.decisions if one.key not in self._known]
        self._known |= {one.key for one in fresh}
        for one in fresh:
            log.warning("%s goes on without the gap %s, by %s: %s", one.source, one.gap, one.by, one.reason)
        self._outdated |= any(not one.automatic for one in fresh)
        return self._outdated


def partitions_to_check(
    now: AbstractSet[Partition], named: AbstractSet[Partition], *, is_first: bool
) -> AbstractSet[Partition] | None:
    """Which partitions of central are checked for undecided transactions when an epoch opens; None: all.

    Args:
        now: Partitions that the epoch is about to write.
        named: Partitions in which something was undecided at the last look.
        is_first: It is the driver's first: nobody has told it anything.
    """
    if is_first:
        return None
    return named if len(now) > _MAX_ASKED else named | now


def group_holds_by_reason(holds: Iterable[Hold]) -> Iterator[tuple[str, str]]:
    """The held flows and the reasons, one line for all flows of an edge with the same reason."""
    found: dict[tuple[str, str], list[EdgePartition]] = defaultdict(list)
    for hold in holds:
        found[hold.source.edge, hold.detail].append(hold.source)
    for (_, why), sources in found.items():
        yield f"{format_flows(sources)} {'is' if len(sources) == 1 else 'are'}", why


def is_old(age_s: float, *, refused: bool) -> bool:
    """Whether an epoch is so old that a new one should retry the flows that were refused or held.

    Args:
        age_s: Age of the epoch in seconds.
        refused: It gave flows to no slot. Opening an epoch stops all flows for most of a second: 0.2 % of the time
            if flows were refused (every 300 s), 0.03 % if none were (every 1,800 s).
    """
    return age_s >= (_REFUSED_AGE_S if refused else _GREATEST_AGE_S)
