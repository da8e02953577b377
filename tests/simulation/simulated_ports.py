"""The ports of slots and drivers on the simulated clusters. The protocol code above them is the product's own."""

import contextlib
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping

from aggregator.coordinates import EdgePartition, OffsetRange, Position
from aggregator.errors import OutcomeUnknown, TransactionAborted
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.open_range import CentralRecord
from aggregator.kafka.writers.refusals import Refusal
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.state.control import ControlEntry, ControlState, Lease, UndecidedRange, encode, fold
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord, winners
from aggregator.state.names import HubNames
from aggregator.state.requests import encode as encode_decision
from aggregator.state.requests import fold_requests
from tests.simulation.cluster import Central, Entry, Part, Place
from tests.simulation.edge import EDGE, TOPIC, WIDEST, Edge, SimReader, SimTopicIds
from tests.simulation.protocol import Protocol

# Less than the product waits: whoever fails comes again.
BOUND_S = 5.0
# How often a beat of the lease comes between two steps of its driver.
_BEATS, _BEAT_S = 0.3, 2.0


class SimWriter:
    """A transactional producer; records go to the brokers one by one, with other actors in between."""

    def __init__(self, central: Central, name: str, *, shared: str | None = None, refused_calls: float = 0.0) -> None:
        self._refused_calls = refused_calls
        self._central = central
        self._name = name
        self._shared = shared
        self._epoch = -1
        self._begun = False
        self.touched: set[tuple[str, int]] = set()
        self._acknowledged: dict[tuple[str, int], int] = {}

    def open(self) -> None:
        self._epoch = self._central.init(self._name)

    def refusals(self) -> list[Refusal]:
        refused, self._central.refused[self._name] = self._central.refused[self._name], []
        return refused

    def begin(self) -> None:
        self._may_refuse("begin")
        if self._begun:
            raise OutcomeUnknown("begin in a transaction")
        self._begun, self.touched = True, set()

    def produce(self, topic, key, value, *, partition=-1, timestamp_ms=0, headers=None) -> None:
        self._central.scheduler.pause()
        if topic == self._shared:
            partition = 0
        self.touched.add((topic, partition))
        if partition < 0:
            partition = zlib.crc32(value or b"") % WIDEST if topic == f"{EDGE}.{TOPIC}" else 0
        key, place = key.decode() if isinstance(key, bytes) else key, (topic, partition)
        self._acknowledged[place] = self._central.append(
            self._name, self._epoch, place, (key or "", value, tuple(headers or ()))
        )

    def acknowledged(self, at: Place) -> int | None:
        return self._acknowledged.get(at)

    def produce_all(self, topic, partition, records) -> None:
        for key, value, timestamp_ms, headers in records:
            self.produce(topic, key, value, partition=partition, timestamp_ms=timestamp_ms, headers=headers)

    def commit(self) -> None:
        self._central.scheduler.pause()
        self._central.end(self._name, self._epoch, "committing")
        self._begun = False

    def _may_refuse(self, call: str) -> None:
        """The client may say so of any call; what was open stays so until the id is taken again."""
        if self._refused_calls and self._central.scheduler.random.random() < self._refused_calls:
            raise TransactionAborted(f"{call} is refused")

    def abort(self) -> None:
        self._may_refuse("abort")
        self._central.scheduler.pause()
        self._central.end(self._name, self._epoch, "aborting")
        self._begun = False

    def close(self) -> None:
        return


class Logs:
    """Central's internal topics, read to their end by the product's own rule."""

    def __init__(self, central: Central, names: HubNames, ledgers: int, protocol: Protocol) -> None:
        self.central = central
        self.names = names
        self.ledgers = ledgers
        self.protocol = protocol

    def read(
        self, topic: str, partitions: Iterable[int], meanwhile: Callable[[], None] = lambda: None
    ) -> list[LogRecord]:
        """Records up to the end; `meanwhile` comes between two looks."""
        places = [(topic, partition) for partition in partitions]

        def ends(of):
            self.central.scheduler.pause()
            return {place: of(place) for place in places}

        def sleep(seconds: float) -> None:
            meanwhile()
            self.central.scheduler.sleep(seconds)

        upto = self.protocol.stable_ends(
            lambda: ends(self.central.log_end),
            lambda: ends(self.central.stable_end),
            timeout_s=BOUND_S,
            now=lambda: self.central.scheduler.now,
            sleep=sleep,
        )
        return [
            LogRecord(place[1], offset, entry.key, entry.value)
            for place in places
            for offset, entry in self.central.committed(place, upto[place])
        ]

    def read_undecided(self, partitions: Iterable[Place], known_s: float | None = None) -> dict[Place, OffsetRange]:
        """As somebody is told who asked at `known_s` who leads what, or does now."""
        known_s = self.central.scheduler.now if known_s is None else known_s
        self.central.scheduler.pause()
        return {place: self.central.ends(place, known_s) for place in partitions}

    def read_control(self, meanwhile: Callable[[], None] = lambda: None) -> ControlState:
        return fold(ControlState(), self.read(self.names.control, [0], meanwhile), self.names.control)

    def control_now(self) -> ControlState:
        """The control topic as far as it is stable."""
        topic = self.names.control
        seen = self.central.committed((topic, 0))
        return fold(ControlState(), [LogRecord(0, offset, entry.key, entry.value) for offset, entry in seen], topic)

    def read_ledger(self, partitions: Iterable[int]) -> dict[EdgePartition, LedgerRecord]:
        return self.protocol.winners(self.read(self.names.ledger, partitions), self.names.ledger)

    def decisions(self) -> tuple[GapDecision, ...]:
        return fold_requests(self.read(self.names.requests, [0]), self.names.requests).decisions

    def decide(self, decision: GapDecision) -> None:
        """What a person writes: a plain record, committed at once."""
        self.central.logs[self.names.requests, 0].append(
            Entry(Part("a person", 0, "committed"), *encode_decision(decision))
        )

    def ledger_now(self, partitions: Iterable[int], backfill: str = "") -> dict[EdgePartition, LedgerRecord]:
        """The ledger as far as it is stable, by the real rule: for the check, and for who forgets to wait."""
        records = [
            LogRecord(partition, offset, entry.key, entry.value)
            for partition in partitions
            for offset, entry in self.central.committed((self.names.ledger, partition))
        ]
        return winners(records, self.names.ledger, backfill=backfill)


class SimSlotPorts:
    """SlotPorts of one slot task."""

    def __init__(self, logs: Logs, edge: Edge, life: str, slot: int, *, refused_calls: float = 0.0) -> None:
        self._refused_calls = refused_calls
        self._logs = logs
        self._edge = edge
        self._life = life
        self._slot = slot
        self._known_s = 0.0
        self.newest_reader: SimReader | None = None

    def poll_control(self) -> ControlState:
        self._logs.central.scheduler.pause()
        return self._logs.control_now()

    def read_control(self) -> ControlState:
        return self._logs.read_control()

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        if "shared ledger partition" in self._logs.protocol.switches:
            return self._logs.ledger_now([0])
        return self._logs.read_ledger([self._slot])

    def refresh_leaders(self) -> None:
        self._known_s = self._logs.central.scheduler.now

    def open_writer(self) -> SimWriter:
        if "leaders of before, slots" not in self._logs.protocol.switches:
            self.refresh_leaders()
        shared = "shared ledger partition" in self._logs.protocol.switches
        ledger = self._logs.names.ledger if shared else None
        name, odds = self._logs.names.slot_id(self._slot), self._refused_calls
        return SimWriter(self._logs.central, name, shared=ledger, refused_calls=odds)

    def open_reader(self, edge: str) -> SimReader:
        self.newest_reader = SimReader(self._logs.central.scheduler, self._edge, self._life)
        return self.newest_reader

    def open_topic_ids(self, edge: str) -> SimTopicIds:
        return SimTopicIds(self._logs.central.scheduler, self._edge)

    def read_limits(self, topic: str) -> TopicLimits:
        return TopicLimits()

    def publish_telemetry(self, body: dict[str, object]) -> None:
        return

    def now(self) -> float:
        return self._logs.central.scheduler.now

    def clock_ms(self) -> int:
        return int(self._logs.central.scheduler.now * 1000)

    def sleep(self, seconds: float) -> None:
        self._logs.central.scheduler.sleep(seconds)

    def read_undecided(self, partitions: Iterable[Place]) -> Mapping[Place, OffsetRange]:
        return self._logs.read_undecided(
            [place for place in partitions if self._logs.central.answers(place)], known_s=self._known_s
        )

    def unwritable(self, partitions: Iterable[Place]) -> list[Refusal]:
        self._logs.central.scheduler.pause()
        return self._logs.central.unwritable(partitions)

    def partition_count(self, topic: str) -> int:
        return WIDEST if topic.startswith(EDGE) else 1


class SimDriverCentral:
    """DriverCentral of one driver process; its lease beats whenever it reads the control topic."""

    def __init__(self, logs: Logs, slots: int, name: str = "") -> None:
        self._logs = logs
        self._slots = slots
        self._name = name
        self._beat, self._beaten_s = 0, 0.0
        self._writer = SimWriter(logs.central, logs.names.driver_id)
        self._began_s = logs.central.scheduler.now

    def take_id(self) -> None:
        self._writer.open()
        at, switches = (self._logs.names.control, 0), self._logs.protocol.switches
        asked = (
            self.read_undecided if "control silent" in switches else self._logs.read_undecided
        )  # it waits for an answer
        for _ in range(5):
            left = {place: offsets for place, offsets in asked([at]).items() if len(offsets)}
            if "control left undecided" in switches or not self._logs.protocol.await_decided(self, left):
                return
            self._writer.begin()
            self._writer.produce(at[0], "leftover", b"{}", partition=0)
            self._writer.abort()
        self._logs.read_control()

    def read_control(self) -> ControlState:
        if self._logs.central.scheduler.random.random() < _BEATS:
            self.beat(after_s=0.0)
        return self._logs.read_control(meanwhile=self.beat)

    def beat(self, *, after_s: float = _BEAT_S) -> None:
        """What a thread of the driver does while another one waits: its commit decides what was left in the topic."""
        now = self._logs.central.scheduler.now
        if now - self._beaten_s > after_s:
            self._beat, self._beaten_s = self._beat + 1, now
            with contextlib.suppress(TransactionAborted):
                self.publish(Lease(self._name, self._beat))

    def publish(self, *entries: ControlEntry) -> None:
        self._writer.begin()
        for entry in entries:
            key, value = encode(entry)
            self._writer.produce(self._logs.names.control, key, value, partition=0)
        try:
            self._writer.commit()
        except TransactionAborted:
            self._writer.abort()
            raise

    def fence(self, slots: Iterable[int]) -> None:
        for slot in slots:
            SimWriter(self._logs.central, self._logs.names.slot_id(slot)).open()

    def read_undecided(self, partitions: Iterable[Place]) -> Mapping[Place, OffsetRange]:
        known_s = self._began_s if "leaders of before, drivers" in self._logs.protocol.switches else None
        return self._logs.read_undecided(
            [place for place in partitions if self._logs.central.answers(place)], known_s=known_s
        )

    def visible_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        self._logs.central.scheduler.pause()
        return self._logs.ledger_now(range(self._logs.ledgers), backfill)

    def destinations(self, source: EdgePartition, backfill: str) -> Collection[Place]:
        if backfill:
            return self.partitions([f"{EDGE}.{TOPIC}"])
        return self.partitions({one.central for one in self._logs.read_control().targets})

    def partitions(self, topics: Collection[str]) -> list[Place]:
        width = {self._logs.names.ledger: self._logs.ledgers}
        return [
            (topic, at)
            for topic in sorted(topics)
            for at in range(width.get(topic, WIDEST if topic.startswith(EDGE) else 1))
        ]

    def find_newest_position(
        self, partitions: Collection[Place], position_of: Callable[[Place, CentralRecord], Position | None]
    ) -> Position | None:
        self._logs.central.scheduler.pause()
        seen = [
            position_of(place, CentralRecord(entry.key.encode(), entry.value, 0, entry.headers))
            for place in partitions
            for _, entry in self._logs.central.committed(place)
        ]
        return max((one for one in seen if one is not None), default=None)

    def read_records(self, at: Place, offsets: OffsetRange, *, committed: bool) -> list[CentralRecord]:
        self._logs.central.scheduler.pause()
        found = self._logs.central.uncommitted(at, *offsets)
        seen = [entry for _, entry in found if entry.part.state == "committed" or not committed]
        return [CentralRecord(entry.key.encode(), entry.value, 0, entry.headers) for entry in seen]

    def end_undecided(self, records: Mapping[Place, CentralRecord], slots: Iterable[int], *, allowed) -> None:
        writers = [SimWriter(self._logs.central, self._logs.names.slot_id(slot)) for slot in slots]
        for writer in writers:
            writer.open()
        allowed(self.read_control())
        for writer in [*writers, self._writer]:
            writer.begin()
            for (topic, partition), record in records.items():
                writer.produce(topic, record.key, record.value, partition=partition, headers=record.headers)
            writer.abort()

    def rewrite_records(self, noted: UndecidedRange, records: Iterable[CentralRecord]) -> None:
        self._writer.begin()
        for record in records:
            self._writer.produce(
                noted.topic, record.key, record.value, partition=noted.partition, headers=record.headers
            )
        self._writer.produce(self._logs.names.control, noted.key, None, partition=0)
        try:
            self._writer.commit()
        except TransactionAborted:
            self._writer.abort()
            if "note lost with its tombstone" not in self._logs.protocol.switches:
                self.publish(noted)
            raise

    def now(self) -> float:
        return self._logs.central.scheduler.now

    def sleep(self, seconds: float) -> None:
        self._logs.central.scheduler.sleep(seconds)

    def read_backfill_ledger(self, backfill: str) -> Mapping[EdgePartition, LedgerRecord]:
        records = self._logs.read(self._logs.names.ledger, range(self._logs.ledgers))
        return self._logs.protocol.winners(records, self._logs.names.ledger, backfill=backfill)

    def read_ledger(self) -> Mapping[EdgePartition, LedgerRecord]:
        own = "ledger of own slots only" in self._logs.protocol.switches
        return self._logs.read_ledger(range(self._slots if own else self._logs.ledgers))
