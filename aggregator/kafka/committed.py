"""Bounded reads of what is committed at central, and how far it goes: the lake's view of Kafka.

Invariant: only committed records, in order; a range ends by an offset at or past its end or by end-of-partition, never
by "last offset + 1", because transaction markers and aborted records take offsets too. Refuses to skip: a start that
the partition no longer has is an error, never a reset.
"""

import bisect
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import ORIGIN_HEADER, OffsetRange
from aggregator.errors import HoldError, Unreachable
from aggregator.kafka import ends, topics
from aggregator.kafka.clients import consumer

_POLL_S = 0.2
_CONSUME_RECORDS = 2000  # messages taken out of the prefetch queue at once; bytes bound what is kept


class CentralPartition(NamedTuple):
    """One partition of a central topic, of the topic's life that `topic_id` names."""

    topic: str
    topic_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}@{self.topic_id}-{self.partition}"


@dataclass(slots=True)
class Committed:
    """Consecutive committed records of one partition, as parallel lists."""

    topic: str
    partition: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    origins: list[bytes | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> "Committed":
        """The records below a central offset."""
        count = bisect.bisect_left(self.offsets, offset)
        return Committed(
            self.topic,
            self.partition,
            self.offsets[:count],
            self.timestamps_ms[:count],
            self.keys[:count],
            self.values[:count],
            self.origins[:count],
        )


def central_partitions(cluster: ClusterConfig, names: Iterable[str]) -> list[CentralPartition]:
    """Every partition of those topics that exist, with the topic's id.

    Raises:
        Unreachable: the cluster does not answer.
    """
    return [
        CentralPartition(topic.name, topic.topic_id, partition)
        for topic in topics.described(cluster, sorted(names)).values()
        for partition in range(topic.partitions)
    ]


def offset_bounds(
    cluster: ClusterConfig, partitions: Sequence[CentralPartition]
) -> dict[CentralPartition, OffsetRange]:
    """What each partition holds: from its first offset to its last stable offset.

    Raises:
        Unreachable: the cluster does not answer.
    """
    asked = [(one.topic, one.partition) for one in partitions]
    starts, stable = ends.start_offsets(cluster, asked), ends.stable_end_offsets(cluster, asked)
    return {one: OffsetRange(starts[one.topic, one.partition], stable[one.topic, one.partition]) for one in partitions}


class CommittedReader:
    """One consumer for one range after another; a new connection for each would cost more than a short range.

    Args:
        cluster: Central.
        max_bytes: Bound of one piece, and of the prefetch queue.
        patience_s: How long nothing may arrive before a read is given up.
    """

    def __init__(self, cluster: ClusterConfig, *, max_bytes: int, patience_s: float = 30.0) -> None:
        self._consumer: Consumer = consumer(cluster, buffer_bytes=max_bytes)
        self._max_bytes = max_bytes
        self._patience_s = patience_s

    def close(self) -> None:
        """Leave the cluster."""
        self._consumer.close()

    def read(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[Committed]:
        """Read the committed records of a range, in order, in pieces of about `max_bytes` of keys and values.

        Args:
            topic: Central topic.
            partition: Its partition.
            offsets: Range [start, end); `end` is at most the last stable offset.

        Raises:
            HoldError: the partition no longer has `start`, or may not be read.
            Unreachable: the cluster does not answer.
        """
        piece, size = Committed(topic, partition), 0
        for messages in self._polled(topic, partition, offsets):
            for message in messages:
                size += _append(piece, message)
            if size >= self._max_bytes:
                yield piece
                piece, size = Committed(topic, partition), 0
        if len(piece):
            yield piece

    def _polled(self, topic: str, partition: int, offsets: OffsetRange) -> Iterator[list[Message]]:
        """Runs of records of the range, until one message says that nothing before its end comes any more."""
        if not len(offsets):
            return
        self._consumer.assign([TopicPartition(topic, partition, offsets.start)])
        quiet_since, trouble = time.monotonic(), "nothing"
        while True:
            records: list[Message] = []
            for message in self._poll():
                if (message.topic(), message.partition()) != (topic, partition):
                    trouble = message.error().name() if message.error() else trouble
                elif _ends(message, offsets.end):
                    yield records
                    return
                elif message.error() is None:
                    records.append(message)
                else:
                    trouble = message.error().name()
            if records:
                quiet_since = time.monotonic()
                yield records
            elif time.monotonic() - quiet_since > self._patience_s:
                raise Unreachable(
                    f"central: {topic}-{partition} delivered {trouble} for {self._patience_s:.0f} s before offset "
                    f"{offsets.end}",
                    hint="is the partition's leader up?",
                )

    def _poll(self) -> list[Message]:
        """What is queued, after waiting for the first; `consume` alone waits out its time for the last."""
        first = self._consumer.poll(_POLL_S)
        return [] if first is None else [first, *self._consumer.consume(_CONSUME_RECORDS, timeout=0)]


def read_range(
    cluster: ClusterConfig, topic: str, partition: int, offsets: OffsetRange, *, max_bytes: int
) -> Iterator[Committed]:
    """Read one range with a consumer of its own; see `CommittedReader.read`.

    Raises:
        HoldError: the partition no longer has `start`, or may not be read.
        Unreachable: the cluster does not answer.
    """
    reader = CommittedReader(cluster, max_bytes=max_bytes)
    try:
        yield from reader.read(topic, partition, offsets)
    finally:
        reader.close()


def _ends(message: Message, end: int) -> bool:
    """Whether nothing before `end` comes after this: an offset at or past it, or the end of what is committed."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's codes have such names
        # End-of-partition names the last stable offset as that broker knows it; a new leader may be behind `end`.
        return bool(message.offset() >= end)
    where = f"central: {message.topic()}-{message.partition()}"
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001 - as above
        raise HoldError(
            f"{where} no longer has the lake's next offset",
            hint="central's retention removed records before the lake read them; raise retention.ms of that topic",
        )
    if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        raise HoldError(f"{where} may not be read", hint="grant Read on it to the central principal")
    return False  # librdkafka goes on by itself; patience bounds how long


def _append(piece: Committed, message: Message) -> int:
    key, value = message.key(), message.value()
    piece.offsets.append(message.offset())
    piece.timestamps_ms.append(message.timestamp()[1])
    piece.keys.append(key)
    piece.values.append(value)
    origin = None
    for name, content in message.headers() or ():
        if name == ORIGIN_HEADER:
            origin = content
    piece.origins.append(origin)
    return (len(key) if key else 0) + (len(value) if value else 0)
