"""Backfills in a schedule: drivers of the second protocol instance beside the live ones, killed and doubled like them.

The plan, what may still be written, the slots and the ledger are the product's own; a frozen plan lies in a list, as it
lies in the requests topic. Two rules that live in the product's driver, which is not simulated, can be switched off.
"""

import json
from collections import Counter, defaultdict
from dataclasses import replace

from aggregator.backfill.backfill_state import Backfill, Signed
from aggregator.backfill.epoch_plan import ClusterState, plan_epoch
from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.planner import EdgePartitionState, FlowAtCentral, plan_partition
from aggregator.backfill.request import Mode
from aggregator.backfill.store import KnownBackfills, passed_by
from aggregator.coordinates import (
    BACKFILL_HEADER,
    LEFT_OUT_HEADER,
    ORIGIN_HEADER,
    EdgePartition,
    OffsetRange,
    Origin,
)
from aggregator.errors import FatalError, Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.plan import BackfillTerms
from aggregator.replicate.slot.planned_limits import PlannedLimits
from aggregator.state.control import Lease
from aggregator.state.dead_letters import Letter
from aggregator.state.ledger import LedgerRecord, Positions
from aggregator.state.letter_log import LetterLog, doubted
from aggregator.state.requests import by_flow
from tests.simulation.edge import EDGE, PARTITIONS, TOPIC, EdgeFaults
from tests.simulation.schedule import (
    COMMIT_POLICY,
    DIGEST_KEY,
    LEDGERS,
    NAMES,
    PLACES,
    SETTLED,
    KeepMost,
    Schedule,
    Situation,
    _config,
    digest,
)
from tests.simulation.simulated_ports import Logs, SimDriverCentral, SimSlotPorts

CENTRAL = f"{EDGE}.{TOPIC}"
SITUATIONS = {
    "late": Situation(start="latest", crash=0.006, second=0.003),
    "late, cut": Situation(start="latest", crash=0.004, cut=0.008),
    "late, damaged, cut": Situation(start="latest", crash=0.004, damage=0.02, cut=0.006),
    "late, truncated": Situation(start="latest", crash=0.004, truncate=0.004, told=True),
    "late, registry away": Situation(start="latest", crash=0.004, edge=EdgeFaults(no_schema=0.5, unreachable=0.1)),
    "late, markers dropped": Situation(
        start="latest", crash=0.006, second=0.003, dropped={f".{TOPIC}": 0.05}, told=True
    ),
    "late, internal markers dropped": Situation(
        start="latest",
        crash=0.006,
        second=0.003,
        dropped={
            f".{TOPIC}": 0.1,
            NAMES.dead_letters: 0.1,
            NAMES.ledger: 0.05,
            NAMES.backfills().ledger: 0.2,
            NAMES.backfills().control: 0.1,
        },
    ),
}
# Of no plan.
_NOBODY = "nobody"
_BEHIND_ALL = LedgerRecord(2**31, "", 0, 0, 0)


class BackfillLogs(Logs):
    """The second instance's topics, as one backfill reads them."""

    def __init__(self, logs: Logs, backfill: str) -> None:
        super().__init__(logs.central, NAMES.backfills(), LEDGERS, logs.protocol)
        self.backfill = backfill

    def read_ledger(self, partitions):
        records = self.read(self.names.ledger, partitions)
        return self.protocol.winners(records, self.names.ledger, backfill=self.backfill)


class BackfillSchedule(Schedule):
    """A schedule with backfills."""

    def __init__(self, seed: int, situation: Situation, protocol, *, forgets: str = "") -> None:
        super().__init__(seed, situation, protocol)
        self.plans: dict[str, Plan] = {}
        self.rejecting: dict[str, bool] = {}
        self.owner = protocol.TransactionOwner.of_backfills(NAMES)
        self.forgets = forgets

    def _environment(self) -> None:
        super()._environment()
        late = sum(actor.alive and actor.name.startswith("late") for actor in self.scheduler.actors)
        if not self.quiet and late < 2 and self.scheduler.random.random() < 0.02:
            self._start_late()

    def _start_late(self, *, everything: bool = False):
        self.started += 1
        name = f"late-{self.started}"

        def run() -> str:
            return self._settle(name) if self._is_stuck() else self._backfill(name, everything=everything)

        return self.scheduler.spawn(name, lambda: self._ended(run))

    @staticmethod
    def _ended(run) -> str:
        """How a command ends."""
        try:
            return run()
        except Fenced:
            return "fenced"
        except OutcomeUnknown:
            return "unknown"
        except FatalError:
            return "stuck"

    def _follow_advice(self, last) -> None:
        """Where flows wait for what a backfill left: `backfill settle`."""
        if last.result == "held":
            self.started += 1
            name = f"late-{self.started}"
            settling = self.scheduler.spawn(name, lambda: self._ended(lambda: self._settle(name)))
            self.scheduler.run(lambda: not settling.alive, steps=SETTLED)

    def _outlive_zombies(self) -> None:
        """The live flows are drained: everything that is still missing comes now, and zombies do their harm."""
        for _ in range(12):
            self.central.time_out()  # a plan is read before anybody is fenced: it waits for what the dead left open
            last = self._start_late(everything=True)
            # What one of the two leaves undecided holds up the other until it is settled.
            live = self._start(drain=True) if self.situation.dropped else last
            self.scheduler.run(lambda last=last, live=live: not last.alive and not live.alive, steps=SETTLED * 2)
            self.scheduler.run(lambda: not self.central.undecided, steps=SETTLED)
            if last.result == "nothing" and live.result in {"nothing", "drained"}:
                break
            self._follow_advice(live)
        assert last.result == "nothing", f"no progress: the last backfill ended {last.result}"
        super()._outlive_zombies()

    # --- a backfill's driver

    def _backfill(self, name: str, *, everything: bool) -> str:
        draw = self.scheduler.random
        known = list(self.plans.values())
        plan = draw.choice(known) if known and draw.random() < 0.4 and not everything else self._plan(everything)
        if not plan.writes or (everything and self.situation.has_gaps and not self._is_there(plan)):
            return "nothing"
        self.plans[plan.id] = plan
        self.rejecting.setdefault(plan.id, not everything and draw.random() < 0.3)
        slots = draw.randint(1, LEDGERS)
        central = SimDriverCentral(BackfillLogs(self.logs, plan.id), slots, name)
        central.take_id()
        beat = 0
        while True:
            beat += 1
            self._publish(central, Lease(name, beat))
            if self._late_epoch(central, name, plan, slots):
                return "drained"

    def _is_there(self, plan: Plan) -> bool:
        """Whether a plan has a record; a letter's place may hold a marker since a cut that took nothing else."""
        logs = self.edge.log.partitions
        return any(
            one.value is not None and not one.damaged
            for part in plan.writes
            for _, (start, end) in part.segments
            for one in logs[part.source.partition][start:end]
        )

    def _is_stuck(self) -> bool:
        """Whether something stays undecided where backfills say how far they are."""
        central = SimDriverCentral(BackfillLogs(self.logs, _NOBODY), 1)
        places = [
            *((self.owner.ledger, at) for at in range(LEDGERS)),
            (self.owner.requests, 0),
            (NAMES.dead_letters, 0),
        ]
        found = {at: offsets for at, offsets in central.read_undecided(places).items() if len(offsets)}
        return bool(self.protocol.await_decided(central, found))

    def _settle(self, name: str) -> str:
        """What a person says where the hub asks for it: `backfill settle`."""
        central = SimDriverCentral(BackfillLogs(self.logs, _NOBODY), 1, name)
        central.take_id()
        try:
            opened = self.protocol.open_epoch(central, slots=1, driver=name, partitions=PLACES, owner=self.owner)
        except (TransactionAborted, Unreachable):
            return "refused"
        return "held" if opened.held else "settled"

    def _plan(self, everything: bool) -> Plan:
        draw = self.scheduler.random
        standings = self._flows_at_central()
        parts = []
        for partition in range(PARTITIONS):
            source = EdgePartition(EDGE, TOPIC, partition)
            if source not in standings:
                continue
            log = self.edge.log.partitions[partition]
            begin = 0 if everything else draw.randint(0, len(log))
            asked = OffsetRange(begin, len(log) if everything else draw.randint(begin, len(log)))
            shown = EdgePartitionState(
                self.edge.log.topic_id, OffsetRange(self.edge.log.starts[partition], len(log)), (asked,)
            )
            parts.append(plan_partition(Mode.MISSING, standings[source], shown, CENTRAL))
        plan = Plan("sim", {}, "", Mode.MISSING, "", tuple(parts))
        while plan.id in self.plans:
            plan = replace(plan, round=plan.round + 1)
        return plan

    def _flows_at_central(self, *, without: str = "", settled: bool = False) -> dict[EdgePartition, FlowAtCentral]:
        """What central knows, and what backfills have passed; of one of them, nothing."""
        before = self._positions()
        letters = [one for one in self._letters(before, settled=settled) if not one.resolved_by]
        decisions = by_flow(self.logs.decisions())
        others = [one for one in self._backfills() if one.plan.id != without]
        if self.forgets == "other backfills":
            others = []
        life = self.edge.log.topic_id
        return {
            source: FlowAtCentral(
                source,
                entry,
                decisions.get(source, ()),
                frozenset((one.incarnation, one.offset) for one in letters if one.source == source),
                passed=passed_by(others, Mode.MISSING, PartitionPlan(source, life, CENTRAL, (), OffsetRange(0, 0))),
            )
            for source, entry in before.live.items()
        }

    def _positions(self) -> Positions:
        late = NAMES.backfills().ledger
        return Positions(self.logs.read_ledger(range(LEDGERS)), self.logs.read(late, range(LEDGERS)), late)

    def _letters(self, before: Positions, *, settled: bool) -> list[Letter]:
        """Dead letters with the last word about each; the hub doubts none of its own.

        Args:
            before: The ledger, read before the letters.
            settled: Whether an epoch of backfills has settled their ledger, so that it proves all that they wrote.
        """
        records = self.logs.read(NAMES.dead_letters, [0])
        after = self._positions()
        told = LetterLog(((one.offset, one.key.encode(), one.value) for one in records), NAMES.dead_letters)

        def proof(source: EdgePartition, backfill: str) -> LedgerRecord | None:
            """Where live flows stand is not asked: their ledger may wait for a new epoch to be settled."""
            return after.of(source, backfill) if backfill else _BEHIND_ALL

        foreign = told.unproven_offsets(proof, proof)
        assert not (foreign and settled), (
            f"the hub's, and taken for another's: the dead letters or resolutions at {foreign[:5]}"
        )
        wrong = doubted([told], before.of)
        assert not wrong, f"the hub's, and doubted: {wrong}"
        return list(told.letters(before.of, after.of))

    def _backfills(self) -> list[Backfill]:
        names = NAMES.backfills()
        log: list[LogRecord] = self.logs.read(names.ledger, range(LEDGERS))
        told = KnownBackfills({id_: (plan, Signed("", 0), None) for id_, plan in self.plans.items()})
        told.take_positions(log, names.ledger)
        return list(told.backfills().values())

    def _late_epoch(self, central: SimDriverCentral, name: str, plan: Plan, slots: int) -> bool:
        life = self.edge.log
        ends = tuple(len(log) for log in life.partitions)
        shown = EdgeTopic(TOPIC, life.topic_id, tuple(life.starts), ends, ends, (None,) * PARTITIONS)
        early = self._flows_at_central(without=plan.id)
        try:
            epoch, entries, undecided = self.protocol.open_epoch(
                central, slots=slots, driver=name, partitions=PLACES, owner=self.owner
            )
            if undecided:
                return False
        except (TransactionAborted, Unreachable):
            return False
        known = early if self.forgets == "what was fenced" else self._flows_at_central(without=plan.id, settled=True)
        clusters = ClusterState(_config(slots), {(EDGE, TOPIC): shown}, frozenset(), {CENTRAL: {}}, {})
        flows = plan_epoch(plan, clusters, known, entries, epoch=epoch.epoch)
        terms = BackfillTerms(
            plan.id, NAMES.dead_letters, writes_notices=self.situation.told and self.forgets != "what is left out"
        )
        plans = [
            self.protocol.SlotPlan(
                NAMES.backfills(), epoch.epoch, name, slot, flows.by_slot.get(slot, ()), COMMIT_POLICY, True, 1e9, terms
            )
            for slot in range(slots)
        ]
        tasks = [self._late_task(name, one, life.topic_id) for one in plans]
        attempts = 0
        while any(task.alive for task in tasks):
            self.scheduler.sleep(0.02)
            central.beat()
            for index, task in enumerate(tasks):
                if task.crashed and attempts < 4:
                    attempts += 1
                    tasks[index] = self._late_task(name, plans[index], life.topic_id)
        ended = [task.result for task in tasks if task.result is not None]
        return len(ended) == len(tasks) and all(
            one.result == "drained" and not one.undecided_partitions for one in ended
        )

    def _late_task(self, driver: str, plan, life: str):
        world = SimSlotPorts(BackfillLogs(self.logs, plan.terms.backfill), self.edge, life, plan.slot)
        terms = plan.terms
        delivery = Delivery(
            DeliveryPlan(
                "sim",
                terms.dead_letters,
                Cycles("sim"),
                DIGEST_KEY,
                terms.backfill,
                writes_notices=terms.writes_notices,
            ),
            lambda _: KeepMost(self.scheduler, self.edge, rejects=self.rejecting[terms.backfill]),
            PlannedLimits(world).require,
        )
        return self._spawn(driver, plan, world, delivery)

    # --- the invariants

    def _check(self) -> None:
        """Every record of the log once, but for those that nobody can read; no letter speaks of what is there."""
        if self.situation.told:
            self._check_told()
        words, letters = self._letters(self._positions(), settled=True), self._values_of_letters()
        for partition in range(PARTITIONS):
            entries = [entry for _, entry in self.central.committed((CENTRAL, partition))]
            values = [entry.value for entry in entries if LEFT_OUT_HEADER not in dict(entry.headers)]
            twice = [value for value, times in Counter(values).items() if times > 1]
            assert not twice, f"delivered twice: {twice[:5]}"
            there, log = set(values), self.edge.log
            whole = [one for one in log.partitions[partition][log.starts[partition] :] if not one.damaged]
            wanted = {one.value for one in whole if one.value is not None}
            assert wanted <= there, f"lost from {partition}: {sorted(wanted - there)[:5]}"
            mine = [one for one in words if one.source.partition == partition]
            dead = {letters[one.key] for one in mine if not one.resolved_by}
            assert not dead & there, f"delivered, and dead: {sorted(dead & there)[:5]}"
            gone = {letters[one.key] for one in mine if one.resolved_by} - there
            assert not gone, f"resolved, and not delivered: {sorted(gone)[:5]}"

    def _check_told(self) -> None:
        """Of each record that a backfill has read there is a copy or a notice, once, as its ledger counts them."""
        told: dict[tuple[str, EdgePartition], list[tuple[bool, bytes]]] = defaultdict(list)
        for partition in range(PARTITIONS):
            for _, entry in self.central.committed((CENTRAL, partition)):
                headers = dict(entry.headers)
                if BACKFILL_HEADER in headers:
                    origin = Origin.decode(headers[ORIGIN_HEADER])
                    source = EdgePartition(origin.edge, origin.topic, origin.partition)
                    notice = (LEFT_OUT_HEADER in headers, headers[ORIGIN_HEADER])
                    told[headers[BACKFILL_HEADER].decode(), source].append(notice)
        for backfill in self._backfills():
            for source, counted in backfill.entries.items():
                notices = told[backfill.plan.id, source]
                assert len({origin for _, origin in notices}) == len(notices), "told twice of one record"
                counts = (counted.delivered, counted.dead + counted.suppressed)
                found = Counter(left_out for left_out, _ in notices)
                assert counts == (found[False], found[True]), f"read {counts}, told {dict(found)}"

    def _values_of_letters(self) -> dict[str, bytes]:
        """Of which record each letter was, by its key; a resolution does not say it."""
        known = {digest(value): value for value in self.edge.ever}
        told = [(entry.key, json.loads(entry.value)) for _, entry in self.central.committed((NAMES.dead_letters, 0))]
        return {key: known[body["value_hmac"]] for key, body in told if "value_hmac" in body}
