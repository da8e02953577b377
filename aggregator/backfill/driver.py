"""The driver of one backfill: leads the protocol's second instance, `H.backfill`, and runs epochs until it is done.

Invariants: rules A to F hold as for the live flows, under ids, control and ledger of its own. One backfill of a hub
runs at a time. Every epoch decides anew what may be written, after all ids were fenced. It then sees all that another
backfill has written, and that one can write nothing more.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from aggregator.backfill.backfill_state import Backfill
from aggregator.backfill.epoch_plan import ClusterState, EpochPlan, plan_epoch
from aggregator.backfill.facts import CentralFacts, read_central
from aggregator.backfill.live_flows import LiveFlows
from aggregator.backfill.pace import next_rate
from aggregator.backfill.pause_watch import PauseWatch
from aggregator.backfill.plan import Plan
from aggregator.backfill.planner import FlowAtCentral
from aggregator.backfill.ranges import union
from aggregator.backfill.request import Mode
from aggregator.backfill.settlement import backfills_central, partitions_of_backfills
from aggregator.backfill.store import generated_by, is_cancel, passed_by, read_backfills
from aggregator.backfill.target import refuse_former, target_config, written
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.errors import TransactionAborted, Unreachable
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.readers.tail import LogTail
from aggregator.machine_clock import utc_now_ms
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import central_topics
from aggregator.replicate.discovery.compacted_keys import losing_keys
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.replicate.epoch.epochs import EpochResult
from aggregator.replicate.epoch.key_usage import usage_warnings
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.epoch.shares import limits_of, shares
from aggregator.replicate.epoch.slot_job import run_slot_job
from aggregator.replicate.flow.cursor import Hold
from aggregator.replicate.identity.clusters import ClusterGuard
from aggregator.replicate.identity.identities import identify
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.leadership import await_lease, hold_leadership, run_epochs
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.leadership.settlement import TransactionOwner
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.key_checks import Checks, checks_of, recorded_checks
from aggregator.replicate.slot.plan import BackfillTerms, SlotOutcome, SlotPlan, SlotResult
from aggregator.replicate.slot.task import EpochWork
from aggregator.state.control import Pace
from aggregator.state.control_log import read_control
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_requests
from aggregator.threads import Threads

_TICK_S, _AGAIN_S = 0.1, 1.0
# Transactions are short, because readers of a live topic wait behind an open one.
_COMMIT_POLICY = CommitPolicy(interval_s=0.1, limit_bytes=4 * 1024 * 1024)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BackfillOutcome:
    """How a run of a backfill ended.

    Attributes:
        finished: Whether central has everything that it can have.
        cancelled: Whether somebody cancelled the backfill.
        lost: Offsets of the plan that could not be read any more, by flow.
        holds: Flows that stand still, with reasons.
        silent: Edges that did not answer, or are paused, with what was wrong last; empty if that is not known.
        undecided_partitions: Those of central in which a transaction is undecided: nobody sees all that was delivered.
    """

    finished: bool = False
    cancelled: bool = False
    lost: Mapping[EdgePartition, tuple[OffsetRange, ...]] | None = None
    holds: tuple[Hold, ...] = ()
    silent: Mapping[str, str] = field(default_factory=dict)
    undecided_partitions: tuple[Partition, ...] = ()


class BackfillDriver:
    """One process that carries out a backfill.

    Args:
        config: The hub.
        spark: Where the slots run.
        policies: Policies of the rules, by path.
        backfill: What to do, as central has it.
        identity: Unique name of this process; begins with the backfill's id.
        stop: Set from outside (SIGTERM) to end cleanly; the backfill can be resumed.
    """

    def __init__(
        self,
        config: HubConfig,
        spark: SparkSession,
        policies: Mapping[Path, Policy],
        backfill: Backfill,
        *,
        identity: str,
        stop: threading.Event,
    ) -> None:
        self._hub = config
        self._plan: Plan = backfill.plan
        self._rate = backfill.rate
        self._config = target_config(config, self._plan.mode, self._plan.into)
        self._spark = spark
        self._policies = policies
        self._identity = identity
        self._stop = stop
        self._threads = Threads(stop)
        self._names = HubNames(config.hub).backfills()
        self._flows = {one.source for one in self._plan.writes}
        self._edges = sorted({source.edge for source in self._flows})
        self._guard = ClusterGuard()
        self._watches = [EdgeWatch(self._config, edge, self._guard.judge) for edge in self._edges]
        self._missed: frozenset[tuple[str, str]] = frozenset()
        self._cancelled = False
        self._newest = -1
        self._checks: Checks = {}

    def run(self) -> BackfillOutcome:
        """Carry the backfill out until it is done, cancelled or stopped; waits while another one runs.

        Raises:
            AnotherHub: another process took this one's place.
            ConfigError: a key is another one than the hub has used under its name and version, or one that it has not
                used yet, or has sealed as much as it may.
            FatalError: slots failed again and again, or the rules changed under the plan.
            Unreachable: central does not answer.
        """
        specs = internal_topics(self._names, self._config.replication.slots)
        topics.ensure(self._config.central, specs, replication_factor=self._config.replication_factor)
        central = backfills_central(self._config, self._plan.id)
        requests = LogTail(self._config.central, self._names.requests)
        pauses = PauseWatch(self._hub, self._edges)
        try:
            await_lease(central, "another backfill", standby=True, stop=self._stop, hint="")
            return BackfillOutcome() if self._stop.is_set() else self._lead(central, requests, pauses)
        finally:
            pauses.close()
            requests.close()
            central.close()

    def _lead(self, central: KafkaDriverCentral, requests: LogTail, pauses: PauseWatch) -> BackfillOutcome:
        renewal = LeaseRenewal(central, self._identity)
        self._newest = central.read_control().epoch_number
        live = read_control(self._hub.central, HubNames(self._hub.hub))
        if self._plan.mode is Mode.INTO:  # a rule may have named the generation since, and another one by now
            known = read_backfills(self._config.central, HubNames(self._hub.hub), for_writing=True).values()
            refuse_former(live.targets, [one.plan for one in known], [one.central for one in self._plan.writes])
        said = read_requests(self._hub.central, HubNames(self._hub.hub)).acceptances
        identify(self._guard, self._hub, live.clusters, said)
        used = {name for policy in self._policies.values() for name in policy.keys()}  # noqa: SIM118 - a policy's keys
        self._checks = recorded_checks(self._config.keys, live.keys, used)
        with hold_leadership(
            central, renewal, self._watches, self._threads, identity=self._identity, epoch_number=lambda: self._newest
        ):
            return self._epochs(central, renewal, requests, pauses)

    def _epochs(
        self, central: KafkaDriverCentral, renewal: LeaseRenewal, requests: LogTail, pauses: PauseWatch
    ) -> BackfillOutcome:
        self._wait_while(lambda: any(watch.topics is None for watch in self._watches))
        deadline = time.monotonic() + self._config.replication.drain_patience.total_seconds()

        def run() -> _Epoch:
            return self._epoch(central, renewal, requests, pauses)

        def trouble(epoch: _Epoch) -> str:
            return "" if self._cancelled else EpochResult(epoch.outcomes, ()).trouble()

        def is_last(epoch: _Epoch) -> bool:
            if self._cancelled:
                return True
            if epoch.undecided_partitions:  # the next epoch settles what this one left undecided
                return time.monotonic() >= deadline or self._stop.wait(_AGAIN_S)
            if not all(one.result is SlotResult.DRAINED for one in epoch.outcomes):
                return False
            if epoch.plan.silent <= self._silent(self._shown(), pauses.paused()):
                return True
            return self._stop.wait(_AGAIN_S)  # an edge that was not read is back, so another epoch reads it

        last = run_epochs(run, renewal, self._stop, trouble=trouble, is_last=is_last, hint="mend it, then resume")
        if self._stop.is_set() or self._cancelled or last is None:
            return BackfillOutcome(cancelled=self._cancelled)
        return self._ended(last)

    def _await_topics(self) -> None:
        """A topic that its edge does not show is waited for like an edge, once: hidden for a moment is not gone."""
        self._wait_while(lambda: bool(self._hidden() - self._missed))
        if not self._stop.is_set():
            self._missed = self._hidden()

    def _wait_while(self, is_missing: Callable[[], bool]) -> None:
        """Wait as long as `--drain` waits for an edge, or until the backfill is stopped."""
        deadline = time.monotonic() + self._config.replication.drain_patience.total_seconds()
        while is_missing() and time.monotonic() < deadline and not self._stop.wait(_TICK_S):
            pass

    def _hidden(self) -> frozenset[tuple[str, str]]:
        """Topics of the plan that their edges, which answered, do not show."""
        shown = self._shown()
        return frozenset(
            (source.edge, source.topic)
            for source in self._flows
            if source.edge in shown and source.topic not in shown[source.edge]
        )

    def _slot_plans(self, epoch: int, plan: EpochPlan, slots: int, terms: BackfillTerms) -> tuple[SlotPlan, ...]:
        own = {slot: plan.by_slot.get(slot, ()) for slot in range(slots)}
        rates = shares(limits_of(self._config), {slot: [flow.source for flow in flows] for slot, flows in own.items()})
        common = (_COMMIT_POLICY, True, self._config.replication.drain_patience.total_seconds(), terms)
        return tuple(
            SlotPlan(self._names, epoch, self._identity, slot, flows, *common, rates=rates[slot] if rates else {})
            for slot, flows in own.items()
        )

    def _epoch(
        self, central: KafkaDriverCentral, renewal: LeaseRenewal, requests: LogTail, pauses: PauseWatch
    ) -> "_Epoch":
        self._checks = checks_of(self._config.keys, self._checks)
        self._await_topics()
        cluster = self._config.central
        shown = self._shown()
        specs = central_topics(self._config, shown)
        counts = topics.ensure(cluster, specs, replication_factor=self._config.replication_factor)
        settings = topic_settings.settings(cluster, [spec.name for spec in specs])
        slots = self._config.replication.slots
        own = {*topics.partitions(counts), (self._letters(), 0)}
        epoch, entries, held = open_epoch(
            central,
            slots=slots,
            driver=self._identity,
            partitions=own.union(partitions_of_backfills(self._config, central)),
            owner=TransactionOwner.of_backfills(HubNames(self._hub.hub)),
            above=self._newest,
        )
        self._newest = epoch.epoch
        if undecided := [reason for at, reason in sorted(held.items()) if at in own]:
            raise Unreachable("; ".join(undecided), hint="start it again when these are decided")
        # Read only now, when no other backfill can write any more.
        known = read_central(self._hub)
        restates = self._plan.mode is Mode.RESTATE
        known.require_own_letters(one.source for one in self._plan.writes if one.letters or restates)
        for sentence in usage_warnings(self._config.keys, [*known.ledger.values(), *entries.values()]):
            log.warning("use of keys: %s", sentence)
        flows_at_central = self._flows_at_central(known, epoch.ids)
        paused = pauses.paused()
        clusters = self._cluster_state(shown, settings, paused)
        plan = plan_epoch(self._plan, clusters, flows_at_central, entries, epoch=epoch.epoch)
        if not plan.by_slot or self._is_cancelled(requests):
            return _Epoch(plan)
        log.info("backfill %s, epoch %d: %d flows", self._plan.id, epoch.epoch, sum(map(len, plan.by_slot.values())))
        rate = self._rate / len(plan.by_slot) if self._rate else None
        terms = BackfillTerms(self._plan.id, self._letters(), rate, writes_notices=self._plan.mode is Mode.RESTATE)
        plans = self._slot_plans(epoch.epoch, plan, slots, terms)
        topics_of_hub = written(self._hub, self._config, known.ledger)
        work = EpochWork(self._config, self._policies, plans, topics_of_hub, self._checks, self._guard.ids)
        shapes, pacing = _shapes(shown), _Pacing(self._hub, central, epoch.epoch, self._rate, len(plan.by_slot))

        def is_due() -> bool:
            pacing.beat(time.monotonic())
            changed = _shapes(self._shown()) != shapes or pauses.poll() != paused
            return self._stop.is_set() or self._is_cancelled(requests) or changed

        try:
            outcomes = run_slot_job(self._spark, work, central, renewal, threads=self._threads, is_due=is_due)
            return _Epoch(plan, tuple(outcomes))
        finally:
            pacing.close()

    def _letters(self) -> str:
        """Dead letters of a live topic are the hub's; those of a generation say nothing of the live flow."""
        return (HubNames(self._hub.hub) if self._plan.mode is Mode.MISSING else self._names).dead_letters

    def _shown(self) -> dict[str, dict[str, EdgeTopic]]:
        """The plan's topics, as the edges show them now."""
        wanted = {(source.edge, source.topic) for source in self._flows}
        return {
            watch.edge: {name: topic for name, topic in watch.topics.items() if (watch.edge, name) in wanted}
            for watch in self._watches
            if watch.topics is not None
        }

    def _cluster_state(
        self,
        shown: Mapping[str, Mapping[str, EdgeTopic]],
        settings: Mapping[str, dict[str, str]],
        paused: frozenset[str],
    ) -> ClusterState:
        now_ms = utc_now_ms()
        return ClusterState(
            self._config,
            {(edge, name): topic for edge, some in shown.items() for name, topic in some.items()},
            self._silent(shown, paused),
            settings,
            losing_keys(self._config, self._policies, shown, settings, now_ms=now_ms),
            {
                (watch.edge, name): one.why
                for watch in self._watches
                for name, one in (watch.shown.unanswered if watch.shown else {}).items()
            },
        )

    def _silent(self, shown: Mapping[str, object], paused: frozenset[str]) -> frozenset[str]:
        """Edges of the plan that do not answer, or that somebody paused."""
        return frozenset(self._edges) - shown.keys() | paused

    def _flows_at_central(self, known: CentralFacts, ids: int) -> dict[EdgePartition, FlowAtCentral]:
        """The state of the plan's flows at central, and the offsets that other backfills have passed."""
        backfills = read_backfills(self._config.central, HubNames(self._hub.hub), partitions=ids, for_writing=True)
        mode, others = self._plan.mode, [one for id_, one in backfills.items() if id_ != self._plan.id]
        there = [(one, passed_by(others, mode, one), generated_by(others, mode, one)) for one in self._plan.writes]
        return {
            one.source: known.flow(one.source, passed, one.central, generated)
            for one, passed, generated in there
            if one.source in known.ledger
        }

    def _is_cancelled(self, requests: LogTail) -> bool:
        for record in requests.poll():
            if is_cancel(record, self._plan.id):
                self._cancelled = record.value is not None
        return self._cancelled

    def _ended(self, epoch: "_Epoch") -> BackfillOutcome:
        plan, outcomes, undecided_partitions = epoch.plan, epoch.outcomes, epoch.undecided_partitions
        holds = (*plan.holds, *(hold for outcome in outcomes for hold in outcome.holds))
        silent = plan.silent | {source.edge for outcome in outcomes for source in outcome.undrained}
        now = read_backfills(self._config.central, HubNames(self._hub.hub))[self._plan.id]
        lost = {
            one.source: found
            for one in self._plan.writes
            if (found := union((*plan.lost.get(one.source, ()), *now.lost(one))))
        }
        finished = not silent and not holds and not undecided_partitions
        why = {watch.edge: watch.answer.trouble for watch in self._watches if watch.edge in silent}
        return BackfillOutcome(finished, lost=lost, holds=holds, silent=why, undecided_partitions=undecided_partitions)


class _Epoch(NamedTuple):
    """Holds the plan of an epoch, and how its slots ended."""

    plan: EpochPlan
    outcomes: tuple[SlotOutcome, ...] = ()

    @property
    def undecided_partitions(self) -> tuple[Partition, ...]:
        """Partitions of central in which its slots left something undecided."""
        return tuple(sorted({at for outcome in self.outcomes for at in outcome.undecided_partitions}))


class _Pacing:
    """Lets the live flows go first: tells the slots of one epoch how fast they may go, through the control topic."""

    def __init__(
        self, hub: HubConfig, central: KafkaDriverCentral, epoch: int, asked: float | None, slots: int
    ) -> None:
        self._live = LiveFlows(hub)
        self._central = central
        self._epoch = epoch
        self._asked = asked
        self._slots = slots
        self._rate = asked
        self._refused = False

    def beat(self, now_s: float) -> None:
        """Look at the live flows once a second, and say what changed."""
        load = self._live.poll(now_s)
        rate = self._rate if load is None else next_rate(self._rate, self._asked, load)
        if rate != self._rate:
            try:
                self._central.publish(Pace(self._epoch, None if rate is None else rate / self._slots))
            except TransactionAborted as error:
                if not self._refused:
                    log.warning("central refuses the backfill's pace, which stays as it was: %s", error.message)
                self._refused = True
            else:
                self._rate, self._refused = rate, False

    def close(self) -> None:
        self._live.close()


def _shapes(shown: Mapping[str, Mapping[str, EdgeTopic]]) -> dict[str, dict[str, tuple[str, int]]]:
    return {edge: {name: topic.shape for name, topic in some.items()} for edge, some in shown.items()}
