"""Epochs without Spark: slots and drivers of one hub, driven directly against real brokers.

The worlds here are the real ones; where a test needs a fault, it subclasses the real world and breaks it at one point.
"""

import json
import threading
from collections.abc import Collection

from aggregator.config.load import load_config
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.privacy.policy.file import load_policy
from aggregator.replicate.discovery.central_topics import central_topics, targets
from aggregator.replicate.discovery.discovery import snapshot
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.epoch.plan import plan_flows
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.settlement import TransactionOwner
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from aggregator.replicate.slot.key_checks import new_checks
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.planned_limits import PlannedLimits
from aggregator.replicate.slot.slot import Slot
from aggregator.replicate.slot.strips import strips
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from tests.trial import read_all

NOW_MS = 1_700_000_000_000
# Many small transactions out of few records.
BRISK = CommitPolicy(interval_s=0.5, limit_bytes=500)


class Epochs:
    """One driver of a trial's hub, whose slots run in this process."""

    def __init__(self, trial, *, slots: int = 1):
        self.trial = trial
        self.slots = slots
        self.config = load_config(trial.config, {})
        self.names = HubNames(trial.hub)
        self.policies = {rule.policy: load_policy(rule.policy) for rule in self.config.topics}
        topics.ensure(self.config.central, internal_topics(self.names, slots))
        self._open = []
        self.central = self.driver()
        for check in new_checks(self.config.keys, self.central.read_control().keys):
            self.central.publish(check)

    def driver(self, kind=KafkaDriverCentral) -> KafkaDriverCentral:
        """A further driver process of the same hub; takes the id."""
        central = kind(self.config, self.names)
        self._open.append(central)
        central.take_id()
        return central

    def producer(self, transactional_id: str) -> TransactionalWriter:
        """A transactional producer of central, opened; whoever had the id is fenced."""
        writer = TransactionalWriter(self.config.central, transactional_id)
        self._open.append(writer)
        writer.open()
        return writer

    def plans(
        self,
        *,
        central=None,
        slots: int | None = None,
        drain: bool = True,
        commit_policy: CommitPolicy = BRISK,
        beats: bool = False,
        beside: Collection[str] = (),
    ):
        """Open the next epoch and plan it from what the edges show: one SlotPlan per slot; `beside`: further topics."""
        count, wanted = slots or self.slots, {self.trial.topic, *beside, *([HEARTBEATS] if beats else [])}
        shown = {
            edge: {name: topic for name, topic in snapshot(self.config, edge, {}).topics.items() if name in wanted}
            for edge in self.config.edges
        }
        specs = central_topics(self.config, shown)
        counts = topics.ensure(self.config.central, specs)
        settings = topic_settings.settings(self.config.central, [spec.name for spec in specs])
        self.written = frozenset(settings)
        epoch, ledger, self.undecided = open_epoch(
            central or self.central,
            slots=count,
            driver="test",
            partitions=[*topics.partitions(counts), (self.names.dead_letters, 0)],
            owner=TransactionOwner.of_live_flows(self.names),
            targets=targets(self.config, shown),
        )
        decisions = (central or self.central).read_requests().decisions
        flows = plan_flows(
            self.config,
            ledger,
            shown,
            settings,
            epoch=epoch.epoch,
            drain=drain,
            now_ms=NOW_MS,
            decisions=decisions,
            undecided=self.undecided,
        )
        return [
            SlotPlan(
                self.names, epoch.epoch, epoch.driver, slot, flows.by_slot.get(slot, ()), commit_policy, drain, 5.0
            )
            for slot in range(count)
        ]

    def slot(self, plan: SlotPlan, world=KafkaSlotPorts, behind=lambda strip: strip):
        """A slot ready to run, with its world; the caller closes the world. `behind` puts something before a strip."""
        made = world(self.config, self.names, plan.slot, batch_bytes=1_000_000)
        of = strips(self.config, self.policies, self.config.keys)
        hub = DeliveryPlan(self.names.hub, self.names.dead_letters, Cycles(self.names.hub, self.written), None)
        delivery = Delivery(hub, lambda source: behind(of(source)), PlannedLimits(made).require)
        return Slot(plan, made, delivery), made

    def run(self, plan: SlotPlan, world=KafkaSlotPorts, **more):
        """Run one slot to its end, here."""
        slot, made = self.slot(plan, world, **more)
        try:
            return slot.run()
        finally:
            made.close()

    def start(self, plan: SlotPlan, world=KafkaSlotPorts, **more) -> "Running":
        """Run one slot in a thread."""
        running = Running(self, plan, world, **more)
        running.start()
        return running

    def ledger_log(self) -> list[tuple[int, EdgePartition, dict]]:
        """The committed ledger as a plain reader sees it: (partition, flow, body), in log order per partition."""
        return [
            (m.partition(), EdgePartition.parse(m.key().decode()), json.loads(m.value()))
            for m in read_all(self.trial.sandbox.central.bootstrap, self.names.ledger)
        ]

    def close(self) -> None:
        for one in self._open:
            one.close()


class Running(threading.Thread):
    """A slot in a thread; `outcome()` waits for its end."""

    def __init__(self, epochs: Epochs, plan: SlotPlan, world, **more):
        super().__init__(daemon=True)
        self._run_slot = lambda: epochs.run(plan, world, **more)
        self._outcome = None
        self._error = None

    def run(self) -> None:
        try:
            self._outcome = self._run_slot()
        except BaseException as error:  # noqa: BLE001 - a test's crash is one, too
            self._error = error

    def outcome(self, timeout: float = 60):
        self.join(timeout)
        assert not self.is_alive(), f"the slot did not end within {timeout} s"
        if self._error:
            raise self._error
        return self._outcome
