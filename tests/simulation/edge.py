"""A simulated edge: one topic, whose logs are truncated, damaged, cut and grown again, widened, hidden and recreated.

What it keeps of Kafka: a leader epoch that never falls along a log and is counted up with every cut; an edge that is
asked where an epoch's records end, and says that a position lies behind; markers, which no reader sees. What it keeps
of librdkafka: a position is compared with the log once after every change of the leader, if its epoch is known; where a
partition is read again whose leader the client knows already, it is not. A damaged batch is one of one leader epoch: no
record of it is read, a log is never cut within it, and an edge says where an epoch ends without reading it. A search of
a log takes several reads, and each meets the log as it is by then. A client fetches by topic id; once it hears that the
topic was created again, it reads on in the new one at the old offset. It ignores leader epochs that fall.

The edge has two brokers: one serves, and the other one hears of a new topic later.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.coordinates import OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.native.topic_ids import Answer, TopicIdResult
from aggregator.kafka.readers.damage import next_readable_offset
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition, TruncationPoint
from aggregator.kafka.readers.truncation import Found, search
from tests.simulation.scheduler import Scheduler

EDGE, TOPIC = "eu", "orders"
PARTITIONS = 2
WIDEST = 4
SERVES, LAGS = 1, 2
_LAG_S = 0.3
_HEARS = 0.2
_TIMED_OUT = -185


class Appended(NamedTuple):
    """One place of a log; `value` None: a marker, or an aborted record. `serial` counts all appends to a partition."""

    value: bytes | None
    leader_epoch: int
    serial: int
    at_s: float
    damaged: bool = False


@dataclass
class EdgeLog:
    """One life of the edge's topic."""

    topic_id: str
    partitions: list[list[Appended]] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    leader_epochs: list[int] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)

    def widen(self) -> None:
        self.partitions.append([])
        self.starts.append(0)
        self.leader_epochs.append(0)
        self.peaks.append(0)

    def end_of(self, partition: int, leader_epoch: int) -> int:
        """Where records of this epoch and of lower ones end; -1: it was never heard of."""
        if leader_epoch > self.leader_epochs[partition]:
            return -1
        log = self.partitions[partition]
        end = next((at for at, one in enumerate(log) if one.leader_epoch > leader_epoch), len(log))
        return max(end, self.starts[partition])  # epochs whose records are all deleted are forgotten


@dataclass(frozen=True)
class EdgeFaults:
    """Chances per question, per poll of a partition, and per batch that is stripped.

    `cut_meanwhile`: per read of a search, which looks for a cut or for the end of a damaged batch.
    """

    unreachable: float = 0.0
    cut_meanwhile: float = 0.0
    denied: float = 0.0
    no_schema: float = 0.0
    refused: float = 0.0


class Edge:
    """One edge with one topic."""

    def __init__(self, scheduler: Scheduler, faults: EdgeFaults) -> None:
        self._scheduler = scheduler
        self.faults = faults
        self.lives: list[EdgeLog] = []
        self.created_s: list[float] = []
        self.hidden = False  # deleted, or hidden from our principal
        self.others: list[str] = []  # further topics, of one empty partition each
        self.serials = [0] * WIDEST
        self.deleted: set[bytes] = set()  # by retention, whether they had been read or not
        self.damaged: set[bytes] = set()  # at some time; some of them could be read before, or can again
        self.ever: dict[bytes, int] = {}  # with its leader epoch
        self.grown_again: set[bytes] = set()  # at offsets that the log had had before it was cut
        self.recreate()

    @property
    def log(self) -> EdgeLog:
        return self.lives[-1]

    def append(self, partition: int, *, marker: bool = False) -> None:
        log, serial = self.log.partitions[partition], self.serials[partition]
        value = None if marker else f"{self.log.topic_id}/{partition}/{serial}/{len(log)}".encode()
        if value:
            self.ever[value] = self.log.leader_epochs[partition]
        if value and len(log) < self.log.peaks[partition]:
            self.grown_again.add(value)
        log.append(Appended(value, self.log.leader_epochs[partition], serial, self._scheduler.now))
        self.serials[partition] += 1

    def truncate(self, partition: int, offset: int) -> None:
        """What retention does."""
        before = self.log.starts[partition]
        self.deleted |= {one.value for one in self.log.partitions[partition][before:offset] if one.value}
        self.log.starts[partition] = max(offset, before)

    def cut(self, partition: int, offset: int) -> None:
        """What a leader does that lacks what the last one had; nothing, where `offset` is the end."""
        log = self.log.partitions[partition]
        if offset < len(log):
            offset = max(_batch_at(log, offset), self.log.starts[partition])
        self.log.peaks[partition] = max(self.log.peaks[partition], len(self.log.partitions[partition]))
        del self.log.partitions[partition][offset:]
        self.log.leader_epochs[partition] += 1

    def cut_anywhere(self, partition: int) -> None:
        """The log loses its end, or only its leader, and mostly grows at once."""
        draw, log = self._scheduler.random, self.log
        self.cut(partition, draw.randint(log.starts[partition], len(log.partitions[partition])))
        for _ in range(draw.randint(0, 8)):
            self.append(partition, marker=draw.random() < 0.15)

    def damage(self, partition: int, offset: int, count: int) -> None:
        """A batch of at most `count` records cannot be read any more."""
        log = self.log.partitions[partition]
        for at in range(offset, min(offset + count, len(log))):
            if log[at].leader_epoch != log[offset].leader_epoch:
                return
            log[at] = log[at]._replace(damaged=True)
            self.damaged |= {log[at].value} - {None}

    def damage_anew(self, partition: int) -> None:
        """A cut takes the newest damaged batch, and another one of its extent comes in its place."""
        log = self.log.partitions[partition]
        end = max((at + 1 for at, one in enumerate(log) if one.damaged), default=0)
        begin = max(_batch_at(log, end - 1), self.log.starts[partition]) if end else 0
        if begin < end:
            self.cut(partition, begin)
            for _ in range(end - begin + self._scheduler.random.randint(0, 2)):
                self.append(partition)
            self.damage(partition, begin, end - begin)

    def mend(self, partition: int) -> None:
        """Every batch can be read again."""
        log = self.log.partitions[partition]
        log[:] = [one._replace(damaged=False) for one in log]

    def recreate(self) -> None:
        self.hidden = False
        self.lives.append(EdgeLog(f"life-{len(self.lives)}"))
        self.created_s.append(self._scheduler.now)
        for _ in range(PARTITIONS):
            self.log.widen()

    def shown(self, broker: int) -> str:
        """The topic id that a broker shows, if any; a client that asks any may get the one that lags."""
        if self.hidden:
            return ""
        until = self._scheduler.now - (0 if broker == SERVES else _LAG_S)
        known = [life for life, at in zip(self.lives, self.created_s, strict=True) if at <= until]
        return (known or self.lives)[-1 if known else 0].topic_id


def _is_one_batch(one: Appended, other: Appended) -> bool:
    return one.damaged and other.damaged and one.leader_epoch == other.leader_epoch


def _batch_at(log: Sequence[Appended], offset: int) -> int:
    """Where the damaged batch begins in which an offset lies."""
    while offset > 0 and _is_one_batch(*log[offset - 1 : offset + 1]):
        offset -= 1
    return offset


def _record_at(log: Sequence[Appended], offset: int) -> Found:
    """What a client meets first from an offset on."""
    damaged_upto = offset
    for at, one in enumerate(log[offset:], offset):
        if one.damaged:
            damaged_upto = at + 1
        elif one.value is not None:
            return Found((at, one.leader_epoch), damaged_upto)
    return Found(None, damaged_upto)


@dataclass
class _Place:
    """Where a partition is read; `seen` is the leader's epoch when the position was last compared."""

    offset: int
    leader_epoch: int | None
    seen: int | None = None


class SimReader:
    """Reads the edge in chunks of a drawn size; it begins with the life of the topic that the driver saw."""

    def __init__(self, scheduler: Scheduler, edge: Edge, life: str) -> None:
        self._scheduler = scheduler
        self._edge = edge
        self._life = life
        self._places: dict[tuple[str, int], _Place] = {}
        self._met: dict[tuple[str, int], int] = {}  # leaders with which a position was compared
        self._told: dict[int, StartPosition] = {}  # of each partition the last position that it said is lost

    def assign(self, starts: Mapping[tuple[str, int], StartPosition]) -> None:
        self._places = {at: _Place(*start, self._met.get(at)) for at, start in starts.items()}

    def incremental_assign(self, at: tuple[str, int], start: StartPosition) -> None:
        """The client compares nothing with a leader that it knows."""
        knows = at in self._met and self._edge.log.topic_id == self._life  # of others nothing was met
        self._places[at] = _Place(*start, self._edge.log.leader_epochs[at[1]] if knows else self._met.get(at))

    def incremental_unassign(self, at: tuple[str, int]) -> None:
        self._places.pop(at, None)

    def poll(self, max_records: int, wait_s: float) -> PollResult:
        self._scheduler.sleep(wait_s)
        polled = PollResult()
        if self._edge.log.topic_id != self._life and self._scheduler.random.random() < _HEARS:
            self._life = self._edge.log.topic_id
        if self._edge.log.topic_id == self._life and not self._edge.hidden:
            for at, place in list(self._places.items()):
                if at[0] != TOPIC:
                    polled.ends[at] = 0
                elif at[1] < len(self._edge.log.partitions):
                    self._poll(at, place, polled, max_records)
        return polled

    def _poll(self, at: tuple[str, int], place: _Place, polled: PollResult, max_records: int) -> None:
        partition, life, draw = at[1], self._edge.log, self._scheduler.random
        log = life.partitions[partition]
        if place.seen is not None and place.seen > life.leader_epochs[partition]:
            return
        if draw.random() < self._edge.faults.denied:
            polled.faults.append(Fault(at, FaultKind.DENIED, ""))
            return
        if self._lost(place, partition):
            self._told[partition] = StartPosition(place.offset, place.leader_epoch)
            polled.faults.append(Fault(at, FaultKind.POSITION_LOST, ""))
            polled.served = {SERVES: {TOPIC}}
            return
        upto = min(len(log), place.offset + draw.randint(0, min(max_records, 4)))
        damaged = next((offset for offset in range(place.offset, upto) if log[offset].damaged), None)
        if damaged is not None:
            upto = damaged
            if damaged == place.offset or draw.random() < 0.5:
                polled.faults.append(Fault(at, FaultKind.DAMAGED, ""))
                polled.served = {SERVES: {TOPIC}}
        got = [(offset, log[offset]) for offset in range(place.offset, upto) if log[offset].value is not None]
        if got:
            offsets = [offset for offset, _ in got]
            none: list = [None] * len(got)
            values = [one.value for _, one in got]
            leader_epoch = got[-1][1].leader_epoch
            polled.chunks.append(Chunk(*at, none, values, none, [0] * len(got), offsets, leader_epoch))
            polled.served = {SERVES: {TOPIC}}
            place.offset, place.leader_epoch = offsets[-1] + 1, leader_epoch
        else:
            if upto > place.offset:
                place.offset, place.leader_epoch = upto, log[upto - 1].leader_epoch
            if upto == len(log):
                polled.ends[at] = upto
                polled.served = {SERVES: {TOPIC}}

    def _lost(self, place: _Place, partition: int) -> bool:
        life = self._edge.log
        if place.seen != life.leader_epochs[partition]:
            if place.leader_epoch is not None and life.end_of(partition, place.leader_epoch) < place.offset:
                return True
            self._met[TOPIC, partition] = place.seen = life.leader_epochs[partition]
        return not life.starts[partition] <= place.offset <= len(life.partitions[partition])

    def told_lost(self, partition: int, start: StartPosition) -> bool:
        """Whether it has said that this position is lost, and it is."""
        life, (offset, leader_epoch) = self._edge.log, start
        if self._told.get(partition) != start or life.topic_id != self._life:
            return False
        cut = leader_epoch is not None and life.end_of(partition, leader_epoch) < offset
        return cut or not life.starts[partition] <= offset <= len(life.partitions[partition])

    def _asked(self) -> None:
        self._scheduler.pause()
        gone = self._edge.hidden or self._edge.log.topic_id != self._life
        if self._scheduler.random.random() < self._edge.faults.unreachable or gone:
            raise Unreachable("the edge does not answer")

    def log_range(self, at: tuple[str, int]) -> OffsetRange:
        self._asked()
        return OffsetRange(self._edge.log.starts[at[1]], len(self._edge.log.partitions[at[1]]))

    def leader_epoch(self, at: tuple[str, int]) -> int:
        self._asked()
        return self._edge.log.leader_epochs[at[1]]

    def find_truncation(self, at: tuple[str, int], log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """The product's own search; whatever befalls the log between two of its reads, the next one meets."""
        self._asked()

        def found_at(offset: int) -> Found:
            return _record_at(self._read_at(at[1], offset)[: log.end], offset)

        def reaches(offset: int) -> bool:
            self._between_reads(at[1])
            return self._edge.log.end_of(at[1], leader_epoch) >= offset

        return search(found_at, reaches, log, leader_epoch)

    def _between_reads(self, partition: int) -> None:
        self._scheduler.pause()
        if self._scheduler.random.random() < self._edge.faults.cut_meanwhile:
            self._edge.cut_anywhere(partition)

    def _read_at(self, partition: int, offset: int) -> Sequence[Appended]:
        """The log as it is at one read of a search; a client waits in vain for an offset that it does not have."""
        self._between_reads(partition)
        life = self._edge.log
        log = life.partitions[partition]
        gone = self._edge.hidden or life.topic_id != self._life
        if gone or not life.starts[partition] <= offset <= len(log):
            raise Unreachable("no answer")
        return log

    def readable_from(self, at: tuple[str, int], offset: int) -> int | None:
        """The product's own search, over damaged batches that touch as one."""
        self._asked()

        def damaged_at(asked: int) -> int | None:
            log = self._read_at(at[1], asked)
            met = next((place for place in range(asked, len(log)) if log[place].damaged or log[place].value), None)
            return None if met is None or not log[met].damaged else _batch_at(log, met)

        return next_readable_offset(damaged_at, offset, len(self._edge.log.partitions[at[1]]), math.inf)

    def close(self) -> None:
        self._places.clear()


class SimTopicIds:
    """Asks a broker for the id of the topic; answers come later, or never."""

    def __init__(self, scheduler: Scheduler, edge: Edge) -> None:
        self._scheduler = scheduler
        self._edge = edge
        self._asked: list[tuple[int, str]] = []

    def ask(self, number: int, topics: Collection[str], broker: int) -> None:
        assert set(topics) == {TOPIC}
        self._asked.append((number, self._edge.shown(broker if broker > 0 else LAGS)))

    def answer(self, wait_s: float) -> Answer | None:
        self._scheduler.sleep(min(wait_s, self._scheduler.random.uniform(0, 0.01)))
        if not self._asked or self._scheduler.random.random() < 0.1:
            return None
        number, topic_id = self._asked.pop(0)
        if self._scheduler.random.random() < self._edge.faults.unreachable:
            return Answer(number, _TIMED_OUT, {})
        return Answer(number, 0, {TOPIC: TopicIdResult(topic_id)})

    def close(self) -> None:
        self._asked.clear()
