"""A tail follows topics at central, and returns the records that have arrived since the last look.

Invariant: a tail never blocks, and proves nothing. Code that needs a proof reads the log to its end.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients
from aggregator.kafka.client.connection import Connection
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import key_text

_MOST = 1000
# One look takes so many batches of a backlog at most; the next look takes the rest.
_BATCHES = 50
# A compacted topic ends in markers, so that its newest record is some offsets before its end.
_NEWEST = 20
_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})  # noqa: SLF001 - public codes


class LogTail:
    """Follows partitions of an internal topic; where its position is gone, from the first record that is still there.

    Args:
        cluster: Central.
        topic: The topic.
        starts: First offset by partition; by default all of partition 0.

    Attributes:
        has_reached_end: Whether the end of some partition was met since its consumer was placed: no backlog is left.
    """

    def __init__(self, cluster: ClusterConfig, topic: str, starts: Mapping[int, int] | None = None) -> None:
        self._topic = topic
        self._next = {0: OFFSET_BEGINNING} if starts is None else dict(starts)
        self._connection = Connection(cluster, clients.consumer)
        self._assign()

    def _assign(self) -> None:
        self.has_reached_end = False
        starts = [TopicPartition(self._topic, partition, offset) for partition, offset in self._next.items()]
        self._connection.client.assign(starts)

    def poll(self) -> list[LogRecord]:
        """Committed records since the last look, in log order of each partition; none while the cluster is away."""
        if self._connection.renew():
            self._assign()
        reader, found = self._connection.client, list[LogRecord]()
        for message in _queued(reader):
            partition, error = message.partition() or 0, message.error()
            if error is None:
                stamp_ms = message.timestamp()[1]
                key, value = key_text(message.key()), message.value()
                found.append(LogRecord(partition, message.offset() or 0, key, value, stamp_ms))
                self._next[partition] = found[-1].offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - a public code
                self.has_reached_end = True
            elif error.code() in _LOST:  # retention or a deletion of the topic: the client stops
                self._next[partition], self.has_reached_end = OFFSET_BEGINNING, False
                reader.incremental_unassign([TopicPartition(self._topic, partition)])
                reader.incremental_assign([TopicPartition(self._topic, partition, OFFSET_BEGINNING)])
        return found

    def close(self) -> None:
        """Close the connection to central."""
        self._connection.close()


class Arrival(NamedTuple):
    """A record that came in, with central's stamp."""

    topic: str
    key: bytes | None
    value: bytes | None
    stamp_ms: int


class ArrivalTail:
    """Follows the first partition of many topics, each from its newest records on.

    Args:
        cluster: Central.
    """

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._connection = Connection(cluster, clients.consumer)
        self._followed: set[str] = set()

    def follow(self, topics: Collection[str]) -> None:
        """Follow these, too, as far as they exist.

        Raises:
            Unreachable: central does not answer.
        """
        fresh = [(topic, 0) for topic in sorted(set(topics) - self._followed)]
        if not fresh:
            return
        readable = ends.readable_ranges(self._cluster, fresh)
        self._connection.client.incremental_assign(
            [TopicPartition(*at, max(log.start, log.end - _NEWEST)) for at, log in readable.items()],
        )
        self._followed |= {topic for topic, _ in fresh}

    def poll(self) -> list[Arrival]:
        """Committed records since the last look; none while the cluster is away."""
        if self._connection.renew():  # callers follow their topics again
            self._followed.clear()
        reader, found = self._connection.client, []
        for message in _queued(reader):
            topic, error = message.topic() or "", message.error()
            if error is None:
                found.append(Arrival(topic, message.key(), message.value(), message.timestamp()[1]))
            elif error.code() in _LOST and topic in self._followed:  # recreated, or compacted away
                reader.incremental_unassign([TopicPartition(topic, 0)])
                self._followed.discard(topic)
        return found

    def close(self) -> None:
        """Close the connection to central."""
        self._connection.close()


def _queued(reader: Consumer) -> list[Message]:
    found: list[Message] = []
    for _ in range(_BATCHES):
        try:
            some = reader.consume(_MOST, 0)
        except KafkaException:
            break
        found += some
        if len(some) < _MOST:
            break
    return found
