"""One schedule: drivers, slots and an edge under drawn faults, then healing, a last drain, and the invariants.

Invariants: I1, every record that was promised (`promise.py`) is at central exactly once, or has exactly one dead
letter; I4, in order per edge partition; the ledger's counters say what is there; and progress: a last driver without
faults reaches the end.
"""

import hashlib
import heapq
import hmac
import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from aggregator.bytes_column import BytesColumn
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.errors import FatalError, Fenced, HoldError, OutcomeUnknown, Reason, TransactionAborted, Unreachable
from aggregator.header_columns import HeaderTable
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.privacy.batch.strip import PolicyId, Rejection, Stripped
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.epoch.additions import RunningFlows
from aggregator.replicate.epoch.growth import shapes_of
from aggregator.replicate.flow.cursor import HoldReason
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.planned_limits import PlannedLimits
from aggregator.state.control import Lease, Target
from aggregator.state.gap import GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from tests.simulation.cluster import Central, Faults
from tests.simulation.edge import EDGE, PARTITIONS, TOPIC, WIDEST, Edge, EdgeFaults
from tests.simulation.promise import Promise, Sighting
from tests.simulation.protocol import Protocol
from tests.simulation.scheduler import Actor, Scheduler
from tests.simulation.simulated_ports import Logs, SimDriverCentral, SimSlotPorts

NAMES = HubNames("sim")
LEDGERS = 3
MOST_OTHERS = 25
PLACES = [(f"{EDGE}.{TOPIC}", partition) for partition in range(WIDEST)] + [(NAMES.dead_letters, 0)]
TARGET = Target(EDGE, TOPIC, f"{EDGE}.{TOPIC}")
COMMIT_POLICY = CommitPolicy(interval_s=0.05, limit_bytes=200, linger_s=0.002, idle_s=0.05)
DIGEST_KEY = b"of letters"
# Of a drain, with what central has not decided.
PATIENCE_S = 8.0
# Ten times what the slowest of many schedules needed.
SETTLED = 10_000


def is_bad(value: bytes) -> bool:
    """Whether a record cannot be delivered: every seventh that is appended."""
    return _serial(value) % 7 == 3


class KeepMost:
    """Keeps values whole or rejects them, or says that it cannot; the strip is not the simulation's question."""

    policy = PolicyId("all", 1, "")

    def __init__(self, scheduler: Scheduler, edge: Edge, *, rejects: bool = True) -> None:
        self._draw = scheduler.random
        self._edge = edge
        self._rejects = rejects

    def key_versions(self):
        return {}

    def report(self):
        return []

    def strip(self, batch):
        if self._draw.random() < self._edge.faults.no_schema:
            raise Unreachable("the registry does not answer")
        if self._draw.random() < self._edge.faults.refused:
            raise HoldError("the schema is refused")
        bad = [at for at, value in enumerate(batch.values) if self._rejects and is_bad(value)]
        rejected = dict.fromkeys(bad, Rejection(Reason.UNDECODABLE))
        keys, values = BytesColumn.of(batch.keys), BytesColumn.of(batch.values)
        return Stripped(keys, values, HeaderTable.empty(len(batch.keys)), rejected)


@dataclass
class _Named:
    """What a driver's later epochs ask about: where it writes very many partitions, those that slots named.

    `waits`: the newest was not opened, or left something undecided, or held a flow for that. `epoch_number`: its
    number.
    """

    few: bool
    asked: set[tuple[str, int]] | None = None
    waits: bool = False
    epoch_number: int = -1


_NEVER = EdgeFaults()
_OPEN_ENDED = (GapKind.TRUNCATED, GapKind.DELETED)


@dataclass(frozen=True)
class Situation:
    """Chances per step of what may go wrong; `start` and `on_gap` are what the rule says.

    `told`: backfills tell of what they leave out, as restates do. `appears`: the topic is not there at first.
    `others`: chance of a further topic, which stays empty.
    """

    start: str = "earliest"
    on_gap: str = "hold"
    steps: int = 700
    crash: float = 0.003
    freeze: float = 0.002
    time_out: float = 0.001
    recreate: float = 0.0
    truncate: float = 0.0
    cut: float = 0.0
    damage: float = 0.0
    damage_anew: float = 0.0
    widen: float = 0.0
    hide: float = 0.0
    drains: float = 0.0
    second: float = 0.002
    lost: float = 0.02
    refused: float = 0.02
    for_good: float = 0.0
    silent: float = 0.0
    deposed: float = 0.0
    edge: EdgeFaults = _NEVER
    dropped: Mapping[str, float] = field(default_factory=dict)
    afterwards_s: float = 0.2
    one_remains: bool = False
    partition_by: str = "source"
    told: bool = False
    calls: float = 0.0
    forget: float = 0.0
    appears: bool = False
    others: float = 0.0

    @property
    def has_gaps(self) -> bool:
        return bool(self.truncate or self.cut or self.damage or self.hide)


_AWAY = EdgeFaults(unreachable=0.2, denied=0.01, no_schema=0.05, refused=0.005)
SITUATIONS = {
    "mixed": Situation(edge=EdgeFaults(unreachable=0.1, denied=0.002, no_schema=0.01)),
    "recreation": Situation(recreate=0.002, second=0.001),
    "recreation, silence": Situation(recreate=0.004, second=0.001, edge=EdgeFaults(unreachable=0.2)),
    "truncation": Situation(truncate=0.01, crash=0.004, refused=0.06),
    "cut logs": Situation(cut=0.006, refused=0.06),
    "everything at the edge": Situation(cut=0.004, truncate=0.004, refused=0.2, edge=_AWAY),
    "gaps are skipped": Situation(on_gap="skip", cut=0.002, truncate=0.008, refused=0.04),
    "damaged batches, cut logs": Situation(damage=0.02, cut=0.008, refused=0.06, edge=EdgeFaults(unreachable=0.05)),
    "damaged batches are skipped": Situation(on_gap="skip", damage=0.02, cut=0.008, truncate=0.002, refused=0.04),
    "damaged batches in place of others": Situation(damage=0.03, damage_anew=0.02, crash=0.02),
    "logs cut while that is looked for": Situation(damage=0.04, cut=0.02, edge=EdgeFaults(cut_meanwhile=0.2)),
    "logs cut while flows wait": Situation(
        damage=0.02,
        cut=0.04,
        truncate=0.01,
        refused=0.4,
        crash=0.001,
        freeze=0,
        second=0,
        edge=EdgeFaults(cut_meanwhile=0.5, no_schema=0.1, refused=0.05),
    ),
    "aborts at the edge's faults": Situation(cut=0.015, truncate=0.015, refused=0.4, crash=0.001, freeze=0, second=0),
    "latest": Situation(start="latest", crash=0.006),
    "latest, cut": Situation(start="latest", crash=0.006, cut=0.004),
    "latest, cut, widened": Situation(start="latest", crash=0.006, cut=0.004, widen=0.002),
    "cut, recreated": Situation(crash=0.006, cut=0.004, recreate=0.002),
    "cut, hidden, recreated": Situation(cut=0.004, hide=0.01, recreate=0.003, edge=EdgeFaults(unreachable=0.05)),
    "cut while drained": Situation(
        cut=0.01, second=0.001, freeze=0, drains=0.8, edge=EdgeFaults(unreachable=0.4, no_schema=0.05)
    ),
    "by time, widened": Situation(start="time", crash=0.01, widen=0.004),
    "latest, recreated": Situation(start="latest", crash=0.006, recreate=0.002, widen=0.002),
    "answers lost": Situation(lost=0.15, crash=0.0, freeze=0.0, second=0.0),
    "refusals": Situation(for_good=0.1, silent=0.1, calls=0.02),
    "many drivers": Situation(second=0.01, freeze=0.005, crash=0.004),
    "restarts": Situation(crash=0.03, freeze=0.01, time_out=0.0, second=0.01, lost=0.0, refused=0.0),
    "markers dropped": Situation(dropped={f".{TOPIC}": 0.1}, crash=0.006),
    "markers dropped, partitions silent": Situation(dropped={f".{TOPIC}": 0.1}, silent=0.2, refused=0.1),
    "markers dropped, shared partitions": Situation(dropped={f".{TOPIC}": 0.1}, crash=0.006, partition_by="key"),
    "many markers dropped": Situation(
        dropped={f".{TOPIC}": 0.5}, crash=0.02, freeze=0.01, second=0.01, lost=0.05, refused=0.05
    ),
    "markers dropped, gaps skipped": Situation(on_gap="skip", truncate=0.008, refused=0.15, dropped={f".{TOPIC}": 0.3}),
    "markers of letters dropped": Situation(dropped={NAMES.dead_letters: 0.3}, crash=0.006),
    "markers of decisions dropped": Situation(
        on_gap="skip", cut=0.01, truncate=0.004, refused=0.3, crash=0.004, dropped={NAMES.requests: 0.5}
    ),
    "markers dropped, leaders deposed": Situation(
        refused=0.1, crash=0.006, second=0.004, deposed=0.03, dropped={f".{TOPIC}": 0.3}
    ),
    "markers dropped, recreated": Situation(
        recreate=0.003, refused=0.1, silent=0.3, dropped={f".{TOPIC}": 0.4}, crash=0.006
    ),
    "internal markers dropped": Situation(
        steps=1500,
        dropped={NAMES.ledger: 0.1, NAMES.control: 0.2, f".{TOPIC}": 0.3},
        crash=0.02,
        freeze=0.01,
        second=0.01,
        refused=0.1,
    ),
    "internal markers dropped, shared partitions": Situation(
        dropped={NAMES.ledger: 0.2, NAMES.dead_letters: 0.2, f".{TOPIC}": 0.2},
        crash=0.006,
        refused=0.05,
        partition_by="key",
    ),
    "internal markers dropped, partitions silent": Situation(
        steps=1500,
        dropped={NAMES.ledger: 0.1, NAMES.control: 0.2, f".{TOPIC}": 0.3},
        crash=0.02,
        freeze=0.01,
        second=0.01,
        refused=0.1,
        silent=0.2,
    ),
    "control forgotten": Situation(forget=0.01, crash=0.006, freeze=0.006, second=0.006),
    "topics appear": Situation(appears=True, hide=0.001, crash=0.006, freeze=0.004, second=0.004),
    "topics appear, latest": Situation(start="latest", appears=True, crash=0.01, refused=0.1),
    "topics appear, recreated": Situation(appears=True, hide=0.004, recreate=0.003, crash=0.006, second=0.004),
    "topics appear, markers dropped": Situation(
        appears=True, hide=0.001, crash=0.01, dropped={NAMES.ledger: 0.1, NAMES.control: 0.2, f".{TOPIC}": 0.3}
    ),
    "topics appear beside others": Situation(
        others=0.03, crash=0.01, freeze=0.005, second=0.005, refused=0.1, calls=0.01
    ),
    "topics appear beside others, markers dropped": Situation(
        steps=1500, others=0.04, dropped={NAMES.ledger: 0.3}, crash=0.008, second=0.002, refused=0.2
    ),
    "two drivers, no faults": Situation(
        second=0.01, crash=0, freeze=0, time_out=0, lost=0, refused=0, afterwards_s=4.0, one_remains=True
    ),
}
# From when on a rule reads that names a time.
STARTED_S = 0.3


class Schedule:
    """One seed's world."""

    def __init__(self, seed: int, situation: Situation, protocol: Protocol) -> None:
        self.scheduler = Scheduler(seed)
        self.situation = situation
        self.protocol = protocol
        faults = Faults(
            situation.lost,
            situation.refused,
            situation.for_good,
            situation.silent,
            situation.deposed,
            situation.dropped,
        )
        self.central = Central(self.scheduler, faults)
        self.edge = Edge(self.scheduler, situation.edge)
        self.promise = Promise(self.edge)
        self.logs = Logs(self.central, NAMES, LEDGERS, protocol)
        self.slots_of: dict[str, list[Actor]] = {}
        self.worlds: dict[Actor, SimSlotPorts] = {}
        self.open_cuts: list[tuple[EdgePartition, LedgerRecord]] = []  # of topics that were created again
        self.started = 0
        self.quiet = False

    def run(self) -> None:
        """Faults, healing, a last drain, the check."""
        self.scheduler.environment = self._environment
        for partition in range(PARTITIONS):
            for _ in range(3):
                self.edge.append(partition)
        self.edge.hidden = self.situation.appears
        self._start(drain=False)
        limit = self.situation.steps
        self.scheduler.run(lambda: self.scheduler.steps >= limit, steps=limit * 20)
        self.quiet, self.edge.hidden = True, False
        self.central.faults, self.edge.faults = Faults(dropped=self.situation.dropped), _NEVER
        for _ in range(12):
            self._accept_gaps()
            last = self._start(drain=True)
            self.scheduler.run(lambda last=last: not last.alive, steps=SETTLED)
            self.scheduler.run(lambda: not self.central.undecided, steps=SETTLED)
            if last.result == "drained" and not self._open_gaps():
                break
            self._follow_advice(last)
            self.central.faults = Faults()
        assert last.result == "drained", f"no progress: the last driver ended {last.result}"
        self.central.faults = Faults()
        self._outlive_zombies()
        self._check()

    def _follow_advice(self, last: Actor) -> None:
        """What a person does about a driver that ended before it was done."""

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
            self._append(marker=draw.random() < 0.15)
        if draw.random() < odds.time_out:
            self.central.time_out()
        if draw.random() < odds.recreate:
            open_gaps = self._open_gaps().items()
            self.open_cuts += [(source, entry) for source, entry in open_gaps if entry.gap.kind in _OPEN_ENDED]
            self.edge.recreate()
            for partition in range(PARTITIONS):
                for _ in range(draw.randint(0, 8)):
                    self.edge.append(partition)
        if (odds.hide or self.edge.hidden) and draw.random() < (0.005 if self.edge.hidden else odds.hide):
            self.edge.hidden = not self.edge.hidden
        if odds.others and len(self.edge.others) < MOST_OTHERS and draw.random() < odds.others:
            self.edge.others.append(f"late-{len(self.edge.others)}")
        width = len(self.edge.log.partitions)
        if width < WIDEST and draw.random() < odds.widen:
            self.edge.log.widen()
        if draw.random() < odds.truncate:
            partition = draw.randrange(width)
            self.edge.truncate(partition, draw.randint(0, len(self.edge.log.partitions[partition])))
        if draw.random() < odds.cut:
            self.edge.cut_anywhere(draw.randrange(width))
        if odds.damage and draw.random() < odds.damage:
            self._damage(draw.randrange(width))
        if odds.damage_anew and draw.random() < odds.damage_anew:
            self.edge.damage_anew(draw.randrange(width))
        if draw.random() < odds.truncate + odds.cut + odds.damage:
            self._accept_gaps()
        if draw.random() < odds.freeze and self.scheduler.actors:
            self.scheduler.freeze(draw.choice(self.scheduler.actors), draw.uniform(0, 3))
        if draw.random() < odds.crash and self.scheduler.actors:
            self._crash(draw.choice(self.scheduler.actors))
        if odds.forget and draw.random() < odds.forget:
            self._forget()
        alive = sum(actor.alive and actor.name.startswith("driver") for actor in self.scheduler.actors)
        if alive == 0 or (alive < 3 and draw.random() < odds.second):
            self._start(drain=bool(odds.drains) and draw.random() < odds.drains)

    def _forget(self) -> None:
        """Somebody deletes the control topic, and it is made again.

        Not while it has a note, which would be lost.
        """
        at, known = (NAMES.control, 0), self.logs.control_now()
        if not self.central.holding[at] and not known.undecided:
            self.central.logs[at].clear()

    def _append(self, *, marker: bool = False) -> None:
        self.edge.append(self.scheduler.random.randrange(len(self.edge.log.partitions)), marker=marker)

    def _damage(self, partition: int) -> None:
        """One of the last batches cannot be read any more, or all can again."""
        draw, log = self.scheduler.random, self.edge.log
        start, end = log.starts[partition], len(log.partitions[partition])
        if draw.random() < 0.2:
            self.edge.mend(partition)
        elif end > start:
            self.edge.damage(partition, draw.randint(max(start, end - 4), end - 1), draw.randint(1, 3))

    def _open_gaps(self) -> dict[EdgePartition, LedgerRecord]:
        return {source: entry for source, entry in self.logs.ledger_now(range(LEDGERS)).items() if entry.gap}

    def _accept_gaps(self) -> None:
        """A person lets go of exactly what the ledger shows now."""
        for source, entry in self._open_gaps().items():
            self.logs.decide(GapDecision(source, entry.position, entry.gap, "a person", 0, ""))

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
        central, named = SimDriverCentral(self.logs, slots, name), _Named(self.scheduler.random.random() < 0.5)
        beat, seen, began_s = 0, None, self.scheduler.now
        try:
            central.take_id()
            while True:
                beat += 1
                self._publish(central, Lease(name, beat))
                seen = self._seen(seen)
                if self._epoch(central, name, seen, slots, named, drain=drain):
                    return "drained"
                if named.waits and drain and self.scheduler.now > began_s + PATIENCE_S:
                    return "held"
        except Fenced:
            if "init at every epoch" in self.protocol.switches:
                return self._drive(name, slots, drain=drain)
            return "fenced"
        except OutcomeUnknown:
            return "unknown"
        except FatalError:
            return "failed"

    def _publish(self, central: SimDriverCentral, entry: object) -> None:
        while True:
            try:
                return central.publish(entry)
            except TransactionAborted:
                self.scheduler.sleep(0.1)

    def _seen(self, before: Sighting | None) -> Sighting:
        """What a driver's watch shows: offsets are those of the moment at which it first saw the topic like this."""
        now = self.promise.sighting(self.situation.start, STARTED_S)
        return before if before is not None and before.shape == now.shape else now

    def _epoch(
        self, central: SimDriverCentral, name: str, seen: Sighting, slots: int, named: "_Named", *, drain: bool
    ) -> bool:
        snapshots = _snapshots(seen)
        try:
            epoch, ledger, undecided = self.protocol.open_epoch(
                central,
                slots=slots,
                driver=name,
                partitions=PLACES,
                owner=self.protocol.TransactionOwner.of_live_flows(NAMES),
                targets=[TARGET],
                asked=named.asked,
                above=named.epoch_number,
            )
        except (TransactionAborted, Unreachable):
            named.waits = True
            return False
        named.epoch_number, named.asked = epoch.epoch, set(undecided) if named.few else None
        decisions = self.logs.decisions() if self.situation.has_gaps else ()
        self.promise.sightings.setdefault(epoch.epoch, seen)
        config = _config(slots, self.situation.on_gap, self.situation.partition_by)
        flows = self.protocol.plan_flows(
            config, ledger, snapshots, {f"{EDGE}.{TOPIC}": {}},
            epoch=epoch.epoch, drain=drain, now_ms=0, decisions=decisions, undecided=undecided,
        )  # fmt: skip
        written = {target(config, EDGE, name) for name in snapshots[EDGE]}
        running = self.protocol.RunningFlows.of(epoch.epoch, slots, flows, ledger, written)
        plans = [
            self.protocol.SlotPlan(
                NAMES, epoch.epoch, name, slot, flows.by_slot.get(slot, ()), COMMIT_POLICY, drain, 1e9
            )
            for slot in range(slots)
        ]
        tasks = [self._task(name, plan, seen.topic_id) for plan in plans]
        until = self.scheduler.now + self.scheduler.random.uniform(0.2, 2.0)
        asked, attempts = False, 0
        while any(task.alive for task in tasks):
            self.scheduler.sleep(0.02)
            central.beat()
            for index, task in enumerate(tasks):
                if task.crashed and attempts < 4:
                    attempts += 1
                    tasks[index] = self._task(name, plans[index], seen.topic_id)
            now = self._seen(seen)
            if now is not seen and not drain and not asked and self._add(central, config, running, seen, now):
                seen = now
            due = now is not seen or (not drain and self.scheduler.now > until)
            if due and not asked:
                asked = True
                self._publish(central, epoch.epoch)
        for task in tasks:
            self._check_end(task)
        closed = {at for task in tasks if task.result is not None for at in task.result.undecided_partitions}
        if named.few:
            named.asked |= closed
        named.waits = bool(closed) or any(hold.reason is HoldReason.UNDECIDED for hold in flows.holds)
        return not named.waits and all(task.result is not None and task.result.result == "drained" for task in tasks)

    def _add(
        self, central: SimDriverCentral, config: HubConfig, running: RunningFlows, seen: Sighting, now: Sighting
    ) -> bool:
        """Whether the running slots were given what the edge shows anew."""
        before, shown = (shapes_of(_snapshots(one), with_settings=False) for one in (seen, now))
        names = self.protocol.new_topics(before, shown)
        snapshots = _snapshots(now)
        fresh = {edge: {name: snapshots[edge][name] for name in own} for edge, own in (names or {}).items()}
        if not fresh or any(self.protocol.obstacles(config, fresh, running, snapshots, ())):
            return False
        more = self.protocol.plan_additions(config, fresh, {}, running, now_ms=0)
        if TOPIC in fresh[EDGE]:
            self.promise.sightings[running.epoch] = now  # of this topic nothing else of the epoch is new
        return more is not None and self.protocol.give_flows(config, central, running, fresh, more)

    def _task(self, driver: str, plan: SlotPlan, life: str) -> Actor:
        world = SimSlotPorts(self.logs, self.edge, life, plan.slot, refused_calls=self.situation.calls)
        hub = DeliveryPlan("sim", NAMES.dead_letters, Cycles("sim"), DIGEST_KEY)
        delivery = Delivery(hub, self._strip, PlannedLimits(world).require)
        return self._spawn(driver, plan, world, delivery)

    def _spawn(self, driver: str, plan: SlotPlan, world: SimSlotPorts, delivery: Delivery) -> Actor:
        slot = self.protocol.Slot(plan, world, delivery)

        def run() -> object:
            try:
                return slot.run()
            except FatalError:  # a ledger, or the control topic, that a transaction holds for too long
                return None
            except TransactionAborted as error:
                raise AssertionError(f"a refusal costs a slot its life: {error.message}") from None

        actor = self.scheduler.spawn(f"slot-{plan.slot} of {driver}", run)
        self.worlds[actor] = world
        self.slots_of.setdefault(driver, []).append(actor)
        return actor

    def _strip(self, _source: EdgePartition) -> KeepMost:
        return KeepMost(self.scheduler, self.edge)

    # --- the invariants

    def _check_end(self, task: Actor) -> None:
        """A drain's slot does not end well on a position that it was told is lost, unless somebody has judged it."""
        reader = self.worlds[task].newest_reader
        if task.result is None or task.result.result != "drained" or reader is None:
            return
        named = {*task.result.undrained, *(hold.source for hold in task.result.holds)}
        for source, entry in self.logs.ledger_now(range(LEDGERS)).items():
            if source.topic != TOPIC:
                continue
            unjudged = entry.gap is None and source not in named
            start = StartPosition(entry.next_offset, entry.leader_epoch)
            assert not (unjudged and reader.told_lost(source.partition, start)), f"ends well on a cut: {source} {start}"

    def _check(self) -> None:
        ledger = self.logs.ledger_now(range(LEDGERS))
        for place in PLACES:
            assert self.central.stable_end(place) == self.central.log_end(place), f"stands still: {place}"
        log = [entry for p in range(LEDGERS) for entry in self._ledger_log(p)]
        first = self.promise.first_epochs(log)
        self.promise.check_first_positions(log)
        letters = self._letters()
        self._check_open_cuts()
        for partition in range(WIDEST):
            values, dead = self._delivered(partition), letters.get(partition, [])
            twice = [value for value, times in Counter([*values, *dead]).items() if times > 1]
            assert not twice, f"delivered twice: {twice[:5]}"
            for some in (values, dead):
                order = [tuple(map(int, value.split(b"/")[1:])) for value in some]
                assert order == sorted(order), f"reordered: {some}"
            excused = self._excused(partition)
            for life in self.edge.lives:
                self._check_life(life, partition, [*values, *dead], first, excused)
            entry = ledger.get(EdgePartition(EDGE, TOPIC, partition))
            counted = (entry.delivered, entry.dead) if entry else (0, 0)
            assert counted == (len(values), len(dead)), "the counters differ from what is there"

    def _letters(self) -> dict[int, list[bytes]]:
        """Values that have a dead letter, by their digest, in order; by partition."""
        known = {digest(value): value for value in self.edge.ever if is_bad(value)}
        found: dict[int, list[bytes]] = {}
        for _, entry in self.central.committed((NAMES.dead_letters, 0)):
            told = json.loads(entry.value)
            found.setdefault(told["partition"], []).append(known[told["value_hmac"]])
        return found

    def _ledger_log(self, partition: int) -> list[LogRecord]:
        seen = self.central.committed((NAMES.ledger, partition))
        return [LogRecord(partition, offset, entry.key, entry.value) for offset, entry in seen]

    def _delivered(self, partition: int) -> list[bytes]:
        """What central shows of an edge's partition, in order; partitions that flows share keep the order of each."""
        places = PLACES[:WIDEST] if self.situation.partition_by == "key" else PLACES[partition : partition + 1]
        seen = [[entry.value for _, entry in self.central.committed(place)] for place in places]
        found = [[value for value in values if value.split(b"/")[1] == b"%d" % partition] for values in seen]
        return list(heapq.merge(*found, key=lambda value: tuple(map(int, value.split(b"/")[1:]))))

    def _check_life(self, life, partition: int, values: list[bytes], first, excused: set[bytes]) -> None:
        mine = {value for value in values if value.startswith(f"{life.topic_id}/".encode())}
        owed = self.promise.owed(life, partition, first)
        if life is not self.edge.log:  # its end went with it
            reached = max(map(_serial, mine), default=-1)  # by offset, what lay before a cut would count as owed
            owed = {value for value in owed if _serial(value) <= reached}
        lost = owed - mine - excused
        assert not lost, f"lost from {life.topic_id}/{partition}: {sorted(lost)[:5]}"
        early = {value for value in mine if not self.promise.allows(value, life, partition, first)}
        assert not early, f"not asked for from {life.topic_id}/{partition}: {sorted(early)[:5]}"

    def _check_open_cuts(self) -> None:
        """A cut that stood open when its topic was created again is on record, by a decision about it or about both."""
        decided = self.logs.decisions()
        for source, entry in self.open_cuts:
            starts = [one.gap.start for one in decided if (one.source, one.position) == (source, entry.position)]
            assert min(starts, default=2**62) <= entry.gap.start, f"{source}: nobody knows of the cut in {entry}"

    def _excused(self, partition: int) -> set[bytes]:
        """What retention deleted, or could not be read, and somebody let go of: a person, or the rule if it says so.

        And what retention deleted of a log that was cut and grew again: where no offset is missing, nobody can know.
        """
        expired = self._let_go(partition, GapKind.EXPIRED, self.edge.deleted)
        damaged = self._let_go(partition, GapKind.DAMAGED, self.edge.damaged)
        return expired | damaged | (self.edge.deleted & self.edge.grown_again)

    def _let_go(self, partition: int, kind: GapKind, of: set[bytes]) -> set[bytes]:
        """Those values that decisions about gaps of a kind name by their offsets, and by a leader epoch if they do."""
        skips = self.situation.on_gap == "skip"
        gaps = [
            one.gap
            for one in self.logs.decisions()
            if one.source.partition == partition and one.gap.kind is kind and (skips or not one.automatic)
        ]
        newest: dict[int, float] = {}
        for lost in gaps:
            bound = math.inf if lost.leader_epoch is None else lost.leader_epoch
            newest |= {at: max(bound, newest.get(at, -1)) for at in range(lost.start, lost.end)}
        mine = [value for value in of if value.split(b"/")[1] == b"%d" % partition]
        return {value for value in mine if self.edge.ever[value] <= newest.get(int(value.rsplit(b"/", 1)[1]), -1)}


def _serial(value: bytes) -> int:
    return int(value.split(b"/")[2])


def digest(value: bytes) -> str:
    """By which a dead letter names its value."""
    return hmac.new(DIGEST_KEY, value, hashlib.sha256).hexdigest()


def _snapshots(seen: Sighting) -> dict[str, dict[str, EdgeTopic]]:
    """What a driver that saw this knows of its edge."""
    nobody = (None,) * len(seen.ends)
    epochs = seen.leader_epochs
    shown = EdgeTopic(TOPIC, seen.topic_id, seen.starts, seen.firsts, seen.ends, nobody, leader_epochs=epochs)
    empty = (0,), (0,), (0,), (None,)
    others = {name: EdgeTopic(name, f"id of {name}", *empty, leader_epochs=(0,)) for name in seen.others}
    return {EDGE: others | ({} if seen.hidden else {TOPIC: shown})}


_CONFIGS: dict[tuple[int, str, str], HubConfig] = {}


def _config(slots: int, on_gap: str = "hold", partition_by: str = "source") -> HubConfig:
    if (slots, on_gap, partition_by) not in _CONFIGS:
        rule = {
            "match": f"{TOPIC}|late-.*",
            "policy": Path("policy.yaml"),
            "on_gap": on_gap,
            "partition_by": partition_by,
        }
        _CONFIGS[slots, on_gap, partition_by] = HubConfig(
            hub="sim",
            central={"bootstrap_servers": "central:1"},
            edges={EDGE: {"bootstrap_servers": "edge:1"}},
            topics=(rule,),
            replication={"slots": slots},
        )
    return _CONFIGS[slots, on_gap, partition_by]
