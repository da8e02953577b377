"""The edge reader: polls whole chunks of one edge's partitions, with positions, end-of-partition moves and faults.

Invariant: a position moves past markers and aborted records only by end-of-partition; a position that the edge no
longer has is a fault with its coordinates, never a reset. A silent edge costs its caller no time.
"""

import bisect
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka import clients
from aggregator.kafka.cut import Cut, find_cut
from aggregator.kafka.ends import Partition
from aggregator.kafka.statistics import ClientStatistics

_EOF = KafkaError._PARTITION_EOF  # noqa: SLF001 - librdkafka's public codes have such names
_LOST = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION, KafkaError.OFFSET_OUT_OF_RANGE}  # noqa: SLF001
)
_GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}  # noqa: SLF001
)
_DENIED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.GROUP_AUTHORIZATION_FAILED})


@dataclass(slots=True)
class Chunk:
    """Records of one partition in log order, as parallel lists of equal length.

    `leader_epoch` is that of the last record: the edge counts it up whenever a log may have been cut.
    """

    topic: str
    partition: int
    keys: list[bytes | None]
    values: list[bytes | None]
    headers: list[list[tuple[str, bytes | None]] | None]
    timestamps_ms: list[int]
    offsets: list[int]
    leader_epoch: int | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def within(self, offsets: OffsetRange) -> "Chunk":
        """The records at these offsets; of which leader epoch their last one is, nobody knows."""
        part = slice(bisect.bisect_left(self.offsets, offsets.start), bisect.bisect_left(self.offsets, offsets.end))
        return Chunk(
            self.topic,
            self.partition,
            self.keys[part],
            self.values[part],
            self.headers[part],
            self.timestamps_ms[part],
            self.offsets[part],
        )


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
    """Reads assigned partitions of one edge with read_committed isolation, prefetching at most `buffer_bytes`."""

    def __init__(self, cluster: ClusterConfig, *, buffer_bytes: int) -> None:
        self._cluster = cluster
        self.statistics = ClientStatistics()
        self._consumer: Consumer = clients.consumer(cluster, buffer_bytes=buffer_bytes, **self.statistics.options)

    def assign(self, positions: Mapping[Partition, int], epochs: Mapping[Partition, int] | None = None) -> None:
        """Read from these positions on; drops whatever was prefetched, so it is also the rewind.

        Args:
            positions: Next offsets.
            epochs: Leader epochs of the records before them, where known. The client asks the edge whether that log
                still reaches to the position; one that was cut and has grown again looks whole otherwise.
        """
        known = epochs or {}
        self._consumer.assign([_start(at, offset, known.get(at)) for at, offset in positions.items()])

    def resume(self, at: Partition, offset: int) -> None:
        """Read a released partition again, from `offset`."""
        self._consumer.incremental_assign([_start(at, offset, None)])

    def release(self, at: Partition) -> None:
        """Stop reading one partition; the others go on."""
        self._consumer.incremental_unassign([TopicPartition(at[0], at[1])])

    def poll(self, most: int, wait_s: float) -> Polled:
        """Take what is there, waiting at most `wait_s` seconds for the first record."""
        polled = Polled()
        try:
            messages = self._consumer.consume(most, 0)
            if not messages and wait_s > 0:
                first = self._consumer.poll(wait_s)
                messages = [first, *self._consumer.consume(most, 0)] if first is not None else []
        except KafkaException as failure:
            polled.faults.append(Fault(("", -1), "failed", failure.args[0].str()))
            return polled
        if any(map(Message.error, messages)):
            for message in messages:
                error = message.error()
                if error is not None:
                    self._note(message, error, polled)
            messages = [message for message in messages if message.error() is None]
        polled.chunks += _chunks(messages)
        return polled

    @staticmethod
    def _note(message: Message, error: KafkaError, polled: Polled) -> None:
        code = error.code()
        topic, partition = message.topic(), message.partition()
        if topic is None or partition is None:
            return  # a broker's trouble; librdkafka reconnects by itself
        at = (topic, partition)
        if code == _EOF:
            polled.ends[at] = message.offset() or 0
        elif code in _LOST:
            polled.faults.append(Fault(at, "position_lost", error.str()))
        elif code in _GONE:
            polled.faults.append(Fault(at, "topic_gone", error.str()))
        elif code in _DENIED:
            polled.faults.append(Fault(at, "denied", error.str()))

    def log_range(self, at: Partition) -> OffsetRange:
        """What the edge has of a partition: [first offset, high watermark).

        Raises:
            Unreachable: the edge does not answer within three seconds.
        """
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(*at), timeout=3.0)
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


def _start(at: Partition, offset: int, leader_epoch: int | None) -> TopicPartition:
    if leader_epoch is None:
        return TopicPartition(*at, offset)
    return TopicPartition(*at, offset, leader_epoch=leader_epoch)


def _chunks(messages: list[Message]) -> Iterator[Chunk]:
    """One chunk per partition: a live edge sends its partitions in turns of a few records, and a chunk costs by itself.

    Every record passes here: accessors are mapped, because a call from Python costs as much as librdkafka's own work.
    """
    runs: dict[Partition, list[Message]] = {}
    start = 0
    at = zip(map(Message.topic, messages), map(Message.partition, messages), strict=True)
    for (topic, partition), run in itertools.groupby(at):
        end = start + sum(1 for _ in run)
        runs.setdefault((topic or "", partition or 0), []).extend(messages[start:end])
        start = end
    for (topic, partition), records in runs.items():
        yield _chunk(topic, partition, records)


def _chunk(topic: str, partition: int, run: list[Message]) -> Chunk:
    return Chunk(
        topic,
        partition,
        list(map(Message.key, run)),
        list(map(Message.value, run)),
        list(map(Message.headers, run)),
        [timestamp_ms for _, timestamp_ms in map(Message.timestamp, run)],
        list(map(Message.offset, run)),
        run[-1].leader_epoch(),
    )
