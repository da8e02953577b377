"""One schedule: drivers, slots and an edge under drawn faults, then healing, a last drain, and the invariants.

Invariants: I1, every edge record is at central exactly once; I4, in order per edge partition; the ledger's counters say
what is there; and progress: a last driver without faults reaches the end.
"""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from aggregator.cells import Cells
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.errors import Fenced, OutcomeUnknown, TransactionAborted
from aggregator.headers import HeaderTable
from aggregator.kafka.control import Lease
from aggregator.kafka.gap import Decision
from aggregator.kafka.ledger import LedgerRecord
from aggregator.kafka.names import HubNames
from aggregator.privacy.strip import PolicyId, Stripped
from aggregator.replicate.cadence import Cadence
from aggregator.replicate.delivery import Delivery, DeliveryPlan
from aggregator.replicate.discovery import EdgeTopic
from tests.simulation.cluster import Central, Faults
from tests.simulation.protocol import Protocol
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.worlds import EDGE, PARTITIONS, TOPIC, Edge, Logs, SimDriverCentral, SimSlotWorld

NAMES = HubNames("sim")
LEDGERS = 3
CADENCE = Cadence(interval_s=0.05, limit_bytes=200, linger_s=0.002, idle_s=0.05)
# Ten times what the slowest of many schedules needed.
SETTLED = 5_000


class KeepAll:
    """Keeps every value; what is stripped is not the simulation's question."""

    policy = PolicyId("all", 1, "")

    def key_versions(self):
        return {}

    def report(self):
        return []

    def strip(self, batch):
        return Stripped(Cells.of(batch.keys), Cells.of(batch.values), HeaderTable.empty(len(batch.keys)))


@dataclass(frozen=True)
class Situation:
    """Chances per step of what may go wrong."""

    start: str = "earliest"
    steps: int = 700
    crash: float = 0.003
    freeze: float = 0.002
    time_out: float = 0.001
    recreate: float = 0.0
    truncate: float = 0.0
    second: float = 0.002
    lost: float = 0.02
    refused: float = 0.02
    afterwards_s: float = 0.2
    one_remains: bool = False


SITUATIONS = {
    "mixed": Situation(),
    "recreation": Situation(recreate=0.002, second=0.001),
    "truncation": Situation(truncate=0.01, crash=0.004),
    "latest": Situation(start="latest", crash=0.006),
    "answers lost": Situation(lost=0.15, crash=0.0, freeze=0.0, second=0.0),
    "many drivers": Situation(second=0.01, freeze=0.005, crash=0.004),
    "restarts": Situation(crash=0.03, freeze=0.01, time_out=0.0, second=0.01, lost=0.0, refused=0.0),
    "two drivers, no faults": Situation(
        second=0.01, crash=0, freeze=0, time_out=0, lost=0, refused=0, afterwards_s=4.0, one_remains=True
    ),
}


class Schedule:
    """One seed's world."""

    def __init__(self, seed: int, situation: Situation, protocol: Protocol) -> None:
        self.scheduler = Scheduler(seed)
        self.situation = situation
        self.protocol = protocol
        self.central = Central(self.scheduler, Faults(situation.lost, situation.refused))
        self.edge = Edge()
        self.logs = Logs(self.central, NAMES, LEDGERS, protocol)
        self.slots_of: dict[str, list[Actor]] = {}
        self.started = 0
        self.quiet = False

    def run(self) -> None:
        """Faults, healing, a last drain, the check."""
        self.scheduler.environment = self._environment
        for partition in range(PARTITIONS):
            for _ in range(3):
                self.edge.append(partition)
        self._start(drain=False)
        limit = self.situation.steps
        self.scheduler.run(lambda: self.scheduler.steps >= limit, steps=limit * 20)
        self.quiet = True
        self.central.faults = Faults()
        for _ in range(8):
            self._accept_gaps()
            last = self._start(drain=True)
            self.scheduler.run(lambda last=last: not last.alive, steps=SETTLED)
            self.scheduler.run(lambda: not self.central.undecided, steps=SETTLED)
            if last.result == "drained" and not self._open_gaps():
                break
        assert last.result == "drained", f"no progress: the last driver ended {last.result}"
        self._outlive_zombies()
        self._check()

    def _outlive_zombies(self) -> None:
        """Whoever was frozen or late does its harm now, and every driver but the newest must have noticed."""
        after = self.scheduler.now + self.situation.afterwards_s
        self.scheduler.run(lambda: not self.scheduler.actors or self.scheduler.now > after, steps=SETTLED)
        if self.situation.one_remains:
            leading = [actor.name for actor in self.scheduler.actors if actor.name.startswith("driver")]
            assert len(leading) <= 1, f"no progress: {leading} fence each other"
        for actor in self.scheduler.actors:
            actor.crash()
        self.central.settle()

    def _environment(self) -> None:
        self.central.work()
        if self.quiet:
            return
        draw, odds = self.scheduler.random, self.situation
        if draw.random() < 0.03:
            self.edge.append(draw.randrange(PARTITIONS))
        if draw.random() < odds.time_out:
            self.central.time_out()
        if draw.random() < odds.recreate:
            self.edge.recreate()
            for partition in range(PARTITIONS):
                for _ in range(draw.randint(0, 8)):
                    self.edge.append(partition)
        if odds.truncate and draw.random() < odds.truncate:
            partition = draw.randrange(PARTITIONS)
            self.edge.truncate(partition, draw.randint(0, len(self.edge.log.partitions[partition])))
        if odds.truncate and draw.random() < odds.truncate:
            self._accept_gaps()
        if draw.random() < odds.freeze and self.scheduler.actors:
            self.scheduler.freeze(draw.choice(self.scheduler.actors), draw.uniform(0, 3))
        if draw.random() < odds.crash and self.scheduler.actors:
            self._crash(draw.choice(self.scheduler.actors))
        alive = sum(actor.alive and actor.name.startswith("driver") for actor in self.scheduler.actors)
        if alive == 0 or (alive < 3 and draw.random() < odds.second):
            self._start(drain=False)

    def _open_gaps(self) -> dict[EdgePartition, LedgerRecord]:
        return {source: entry for source, entry in self.logs.ledger_now(range(LEDGERS)).items() if entry.gap}

    def _accept_gaps(self) -> None:
        """A person lets go of exactly what the ledger shows now."""
        for source, entry in self._open_gaps().items():
            self.logs.decide(Decision(source, entry.position, entry.gap, "a person", 0, ""))

    def _crash(self, actor: Actor) -> None:
        actor.crash()
        for slot in self.slots_of.get(actor.name, []):
            if self.scheduler.random.random() < 0.5:
                slot.crash()  # else an orphan, which must not harm

    def _start(self, *, drain: bool) -> Actor:
        self.started += 1
        name = f"driver-{self.started}"
        slots = self.scheduler.random.randint(1, LEDGERS)
        return self.scheduler.spawn(name, lambda: self._drive(name, slots, drain=drain))

    # --- a driver: the product's rules, in a process without Spark

    def _drive(self, name: str, slots: int, *, drain: bool) -> str:
        central = SimDriverCentral(self.logs, slots)
        beat = 0
        try:
            central.take_id()
            while True:
                beat += 1
                self._publish(central, Lease(name, beat))
                if self._epoch(central, name, slots, drain=drain):
                    return "drained"
        except Fenced:
            if "init at every epoch" in self.protocol.switches:
                return self._drive(name, slots, drain=drain)
            return "fenced"
        except OutcomeUnknown:
            return "unknown"

    def _publish(self, central: SimDriverCentral, entry: object) -> None:
        while True:
            try:
                return central.publish(entry)
            except TransactionAborted:
                self.scheduler.sleep(0.1)

    def _epoch(self, central: SimDriverCentral, name: str, slots: int, *, drain: bool) -> bool:
        life = self.edge.log
        ends = tuple(len(log) for log in life.partitions)
        starts = tuple(life.starts)
        firsts = ends if self.situation.start == "latest" else starts
        shown = EdgeTopic(TOPIC, life.topic_id, starts, firsts, ends, (None,) * PARTITIONS)
        decisions = self.logs.decisions() if self.situation.truncate else ()
        try:
            epoch, ledger = self.protocol.open_epoch(central, slots=slots, driver=name)
        except TransactionAborted:
            return False
        flows = self.protocol.plan_flows(
            _config(slots), ledger, {EDGE: {TOPIC: shown}}, {f"{EDGE}.{TOPIC}": {}},
            epoch=epoch.epoch, drain=drain, now_ms=0, decisions=decisions,
        )  # fmt: skip
        plans = [
            self.protocol.SlotPlan(NAMES, epoch.epoch, slot, flows.by_slot.get(slot, ()), CADENCE, drain, 1e9)
            for slot in range(slots)
        ]
        tasks = [self._task(name, plan, life.topic_id) for plan in plans]
        until = self.scheduler.now + self.scheduler.random.uniform(0.2, 2.0)
        asked, attempts = False, 0
        while any(task.alive for task in tasks):
            self.scheduler.sleep(0.02)
            for index, task in enumerate(tasks):
                if task.crashed and attempts < 4:
                    attempts += 1
                    tasks[index] = self._task(name, plans[index], life.topic_id)
            due = self.edge.log is not life or (not drain and self.scheduler.now > until)
            if due and not asked:
                asked = True
                self._publish(central, epoch.epoch)
        return all(task.result is not None and task.result.result == "drained" for task in tasks)

    def _task(self, driver: str, plan: object, life: str) -> Actor:
        world = SimSlotWorld(self.logs, self.edge, life, plan.slot)
        delivery = Delivery(DeliveryPlan("sim", NAMES.dead_letters, frozenset(), None), lambda _: KeepAll())
        actor = self.scheduler.spawn(
            f"slot-{plan.slot} of {driver}", lambda: self.protocol.Slot(plan, world, delivery).run()
        )
        self.slots_of.setdefault(driver, []).append(actor)
        return actor

    # --- the invariants

    def _check(self) -> None:
        ledger = self.logs.ledger_now(range(LEDGERS))
        for partition in range(PARTITIONS):
            seen = self.central.committed((f"{EDGE}.{TOPIC}", partition))
            values = [entry.value for _, entry in seen]
            twice = [value for value, times in Counter(values).items() if times > 1]
            assert not twice, f"delivered twice: {twice[:5]}"
            for life in self.edge.lives:
                self._check_life(life, partition, values)
            entry = ledger.get(EdgePartition(EDGE, TOPIC, partition))
            assert (entry.delivered if entry else 0) == len(values), "the counters differ from what is there"

    def _check_life(self, life, partition: int, values: list[bytes]) -> None:
        mark = f"{life.topic_id}/".encode()
        offsets = [int(value.rsplit(b"/", 1)[1]) for value in values if value.startswith(mark)]
        assert offsets == sorted(offsets), f"reordered: {offsets}"
        log = life.partitions[partition]
        begin = self.edge.polled_from.get(
            (life.topic_id, partition), 0 if self.situation.start == "earliest" else len(log)
        )
        end = len(log) if life is self.edge.log else max(offsets, default=begin - 1) + 1
        lost = self._accepted(partition)
        wanted = [offset for offset in range(begin, end) if log[offset] is not None and offset not in lost]
        assert offsets == wanted, f"lost from {life.topic_id}/{partition}: {sorted(set(wanted) - set(offsets))[:5]}"

    def _accepted(self, partition: int) -> set[int]:
        """Offsets that a person let go of; schedules that truncate have one life only."""
        gaps = [one.gap for one in self.logs.decisions() if one.source.partition == partition and not one.automatic]
        return {offset for lost in gaps for offset in range(lost.start, lost.end)}


_CONFIGS: dict[int, HubConfig] = {}


def _config(slots: int) -> HubConfig:
    if slots not in _CONFIGS:
        _CONFIGS[slots] = HubConfig(
            hub="sim",
            central={"bootstrap_servers": "central:1"},
            edges={EDGE: {"bootstrap_servers": "edge:1"}},
            topics=({"match": TOPIC, "policy": Path("policy.yaml")},),
            replication={"slots": slots},
        )
    return _CONFIGS[slots]
