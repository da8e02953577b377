"""The edge reader: polls whole chunks of one edge's partitions, with positions, end-of-partition moves and faults.

Invariant: a position moves past markers and aborted records only by end-of-partition; a position that the edge no
longer has is a fault with its coordinates, never a reset. A silent edge costs its caller no time; a client that can not
connect any more is replaced by one at the same positions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka import clients
from aggregator.kafka.chunk import Chunk
from aggregator.kafka.cut import Cut, find_cut
from aggregator.kafka.ends import Partition
from aggregator.kafka.statistics import ClientStatistics

if TYPE_CHECKING:
    from aggregator.kafka.native.consumer import Consumer, Event

_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's public codes have such names
_LOST = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001
)
_GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
)
_DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


class Fault(NamedTuple):
    """Why a partition can not be read on: `position_lost`, `topic_gone` or `denied`."""

    at: Partition
    kind: str
    detail: str


@dataclass(slots=True)
class Polled:
    """What one poll brought.

    Attributes:
        chunks: Records, one chunk per partition.
        ends: Partitions whose end was reached, with the position behind markers.
        faults: Partitions that can not be read on.
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: dict[Partition, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)


class EdgeReader:
    """Reads assigned partitions of one edge with read_committed isolation, prefetching at most `buffer_bytes`.

    Assign it as soon as it is made: librdkafka asks who leads a topic while it connects, and once it is connected only
    every second.
    """

    def __init__(self, cluster: ClusterConfig, *, buffer_bytes: int) -> None:
        self._cluster = cluster
        self._buffer_bytes = buffer_bytes
        self._starts: dict[Partition, tuple[int, int | None]] = {}
        self.statistics = ClientStatistics()
        self._consumer = self._connect()

    def _connect(self) -> "Consumer":
        return clients.bulk_consumer(self._cluster, buffer_bytes=self._buffer_bytes, **self.statistics.options)

    def assign(self, positions: Mapping[Partition, int], epochs: Mapping[Partition, int] | None = None) -> None:
        """Read from these positions on; drops whatever was prefetched, so it is also the rewind.

        Args:
            positions: Next offsets.
            epochs: Leader epochs of the records before them, where known. The client asks the edge whether that log
                still reaches to the position; one that was cut and has grown again looks whole otherwise.
        """
        known = epochs or {}
        self._starts = {at: (offset, known.get(at)) for at, offset in positions.items()}
        self._read()

    def _read(self) -> None:
        self._consumer.assign([(*at, *start) for at, start in self._starts.items()])

    def resume(self, at: Partition, offset: int) -> None:
        """Read a released partition again, from `offset`."""
        self._starts[at] = offset, None
        self._consumer.incremental_assign([(*at, offset, None)])

    def release(self, at: Partition) -> None:
        """Stop reading one partition; the others go on."""
        self._starts.pop(at, None)
        self._consumer.incremental_unassign([at])

    def poll(self, most: int, wait_s: float) -> Polled:
        """Take what is there, waiting at most `wait_s` seconds for the first record."""
        polled = Polled()
        if self.statistics.lost():
            self._consumer.close()
            self._consumer = self._connect()
            self._read()
        try:
            found = self._consumer.poll(most, wait_s)
        except KafkaException as failure:
            polled.faults.append(Fault(("", -1), "failed", failure.args[0].str()))
            return polled
        for event in found.events:
            self._note(event, polled)
        for chunk in found.chunks:
            self._move((chunk.topic, chunk.partition), chunk.offsets[-1] + 1, chunk.leader_epoch)
        polled.chunks += found.chunks
        return polled

    def _move(self, at: Partition, offset: int, leader_epoch: int | None = None) -> None:
        if at in self._starts:
            self._starts[at] = offset, self._starts[at][1] if leader_epoch is None else leader_epoch

    def _note(self, event: "Event", polled: Polled) -> None:
        if event.topic is None:
            return  # a broker's trouble; librdkafka reconnects by itself
        at = (event.topic, event.partition)
        if event.code == _EOF:
            polled.ends[at] = event.offset
            self._move(at, event.offset)
        elif event.code in _LOST:
            polled.faults.append(Fault(at, "position_lost", event.text))
        elif event.code in _GONE:
            polled.faults.append(Fault(at, "topic_gone", event.text))
        elif event.code in _DENIED:
            polled.faults.append(Fault(at, "denied", event.text))

    def log_range(self, at: Partition) -> OffsetRange:
        """What the edge has of a partition: [first offset, high watermark).

        Raises:
            Unreachable: the edge does not answer within three seconds.
        """
        try:
            low, high = self._consumer.watermarks(*at, 3.0)
        except KafkaException as failure:
            raise Unreachable(f"{at[0]}/{at[1]}: {failure.args[0].str()}", hint="check the edge's broker") from None
        return OffsetRange(low, high)

    def cut(self, at: Partition, log: OffsetRange, leader_epoch: int) -> Cut:
        """Where a log was cut that we had read up to a record of `leader_epoch`.

        Args:
            at: The partition.
            log: What the edge has of it.
            leader_epoch: Of the last record that we had read.

        Raises:
            Unreachable: the edge does not answer within ten seconds.
        """
        return find_cut(self._cluster, at, log, leader_epoch)

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()
