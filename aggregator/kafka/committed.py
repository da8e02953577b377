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


def read_range(
    cluster: ClusterConfig,
    topic: str,
    partition: int,
    offsets: OffsetRange,
    *,
    max_bytes: int,
    patience_s: float = 30.0,
) -> Iterator[Committed]:
    """Read the committed records of a range, in order, in pieces of about `max_bytes` of keys and values.

    Args:
        cluster: Central.
        topic: Central topic.
        partition: Its partition.
        offsets: Range [start, end); `end` is at most the last stable offset.
        max_bytes: Bound of one piece, and of the prefetch queue.
        patience_s: How long nothing may arrive before the read is given up.

    Raises:
        HoldError: the partition no longer has `start`.
        Unreachable: the cluster does not answer.
    """
    reader = consumer(cluster, buffer_bytes=max_bytes)
    try:
        reader.assign([TopicPartition(topic, partition, offsets.start)])
        yield from _pieces(reader, Committed(topic, partition), offsets, max_bytes, patience_s)
    finally:
        reader.close()


def _pieces(
    reader: Consumer, piece: Committed, offsets: OffsetRange, max_bytes: int, patience_s: float
) -> Iterator[Committed]:
    size, quiet_since, done = 0, time.monotonic(), len(offsets) == 0
    while not done:
        messages = reader.consume(_CONSUME_RECORDS, timeout=_POLL_S)
        if messages:
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since > patience_s:
            raise Unreachable(
                f"central: {piece.topic}-{piece.partition} delivered nothing for {patience_s:.0f} s before offset "
                f"{offsets.end}",
                hint="is the partition's leader up?",
            )
        for message in messages:
            done = _ends(message, offsets.end)
            if done:
                break
            if message.error() is None:
                size += _append(piece, message)
        if size >= max_bytes:
            yield piece
            piece, size = Committed(piece.topic, piece.partition), 0
    if len(piece):
        yield piece


def _ends(message: Message, end: int) -> bool:
    """Whether nothing before `end` comes after this: an offset at or past it, or the end of what is committed."""
    error = message.error()
    if error is None:
        return bool(message.offset() >= end)
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public codes have such names
        # Its offset is the last stable offset as that broker knows it; a new leader may still be behind `end`.
        return bool(message.offset() >= end)
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001 - as above
        raise HoldError(
            f"central: {message.topic()}-{message.partition()} no longer has the lake's next offset",
            hint="central's retention removed records before the lake read them; raise retention.ms of that topic",
        )
    if error.retriable() or not error.fatal():
        return False  # librdkafka goes on by itself; patience bounds how long
    raise Unreachable(f"central: reading {message.topic()}-{message.partition()}: {error.name()}")


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
