"""What a schedule itself knows of the records that are owed to central: the oracle's side of a start offset.

Invariant: nothing here is taken from where the product chose to read. A life of the topic begins for the hub with the
first ledger record of it; what counts is what the edge showed to that epoch's driver, and when. Partitions of that
moment begin where the rule says; later ones, and those of later lives, begin at their beginning. What is appended
after the moment is owed, whatever offset it has: a log may be cut and grow again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.coordinates import EdgePartition
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.ledger import LedgerRecord, decode
from tests.simulation.edge import Edge, EdgeLog

# Life and partition to the first epoch that has a ledger record of it.
FirstEpochs = dict[tuple[str, int], int]


class Sighting(NamedTuple):
    """What an edge showed to a driver: offsets by partition, and what had been appended by then; names of others."""

    topic_id: str
    starts: tuple[int, ...]
    firsts: tuple[int, ...]
    ends: tuple[int, ...]
    leader_epochs: tuple[int, ...]
    serials: tuple[int, ...]
    hidden: bool
    others: tuple[str, ...] = ()

    @property
    def shape(self) -> tuple[str, int, bool, tuple[str, ...]]:
        return self.topic_id, len(self.ends), self.hidden, self.others


@dataclass
class Promise:
    """Sightings, by the epoch that was planned from them."""

    edge: Edge
    sightings: dict[int, Sighting] = field(default_factory=dict)

    def sighting(self, start: str, started_s: float) -> Sighting:
        """What the edge shows now under a rule."""
        log = self.edge.log
        starts, ends = tuple(log.starts), tuple(map(len, log.partitions))
        by_time = tuple(
            next((at for at, one in enumerate(part) if one.at_s >= started_s and at >= begin), len(part))
            for begin, part in zip(starts, log.partitions, strict=True)
        )
        firsts = {"earliest": starts, "latest": ends, "time": by_time}[start]
        told = tuple(log.leader_epochs), tuple(self.edge.serials)
        return Sighting(log.topic_id, starts, firsts, ends, *told, self.edge.hidden, tuple(self.edge.others))

    @staticmethod
    def first_epochs(ledger_log: Iterable[LogRecord]) -> FirstEpochs:
        """When each partition of each life was first written down."""
        first: FirstEpochs = {}
        for record in ledger_log:
            source, entry = EdgePartition.parse(record.key), decode(record, "ledger")
            at = (entry.topic_id, source.partition)
            first[at] = min(entry.epoch, first.get(at, entry.epoch))
        return first

    @staticmethod
    def check_first_positions(ledger_log: Iterable[LogRecord]) -> None:
        """Rule D: where a flow begins is written down before anything of it is read."""
        begun: dict[str, LedgerRecord] = {}
        for record in ledger_log:
            entry, known = decode(record, "ledger"), begun.get(record.key)
            if known is None or entry.epoch < known.epoch:
                begun[record.key] = entry
        late = [key for key, entry in begun.items() if entry.delivered or entry.dead]
        assert not late, f"read before its first position was written: {late}"

    def _begin(self, life: EdgeLog, partition: int, first: FirstEpochs) -> tuple[int, int] | None:
        """Offset at which a partition begins, and the number of the first append that is owed in any case."""
        if (life.topic_id, partition) not in first:
            return None
        own = self.sightings[first[life.topic_id, partition]]
        former = {other.topic_id for other in self.edge.lives[: self.edge.lives.index(life)]}
        if any((topic_id, partition) in first for topic_id in former):
            return 0, own.serials[partition]
        earliest = min(epoch for (topic_id, _), epoch in first.items() if topic_id == life.topic_id)
        width = len(self.sightings[earliest].ends)
        later = partition >= width or any(topic_id in former for topic_id, _ in first)
        return (own.starts if later else own.firsts)[partition], own.serials[partition]

    def owed(self, life: EdgeLog, partition: int, first: FirstEpochs) -> set[bytes]:
        """What its log holds of what was promised; retention may have deleted some of it."""
        if partition >= len(life.partitions):
            return set()
        begin = self._begin(life, partition, first)
        if begin is None:
            assert life is not self.edge.log, f"{life.topic_id}/{partition} never began"
            return set()
        offset, serial = begin
        log = life.partitions[partition]
        return {one.value for at, one in enumerate(log) if one.value and (at >= offset or one.serial >= serial)}

    def allows(self, value: bytes, life: EdgeLog, partition: int, first: FirstEpochs) -> bool:
        """Whether a record may be at central at all."""
        begin = self._begin(life, partition, first)
        _, _, serial, offset = value.split(b"/")
        return begin is not None and (int(offset) >= begin[0] or int(serial) >= begin[1])
