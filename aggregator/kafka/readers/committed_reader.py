"""This module reads bounded ranges of committed records from central for the lake, and tells how far central's logs go.

Invariant: only committed records, in order. A range ends with an offset at or past its end, or with end-of-partition.
It never waits for "last offset + 1", because transaction markers and aborted records take offsets too. The reader never
skips: a start that the partition no longer has is an error, never a reset.
"""

import bisect
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import LEFT_OUT_HEADER, ORIGIN_HEADER, CentralPartition, OffsetRange, Partition
from aggregator.errors import HoldError, Unreachable
from aggregator.kafka.client.clients import consumer
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.polls import poll_batch

_POLL_S = 0.2
_CONSUME_RECORDS = 2000  # messages taken at once; `max_bytes` bounds the kept ones
_TIMEOUT_S = 30.0  # a read without new records fails after this time


@dataclass(slots=True)
class CommittedRecords:
    """Consecutive committed records of one partition, as parallel lists; `held` says why no more can be read.

    `left_out` are offsets of records that only tell of an edge's record that it was left out.
    """

    topic: str
    partition: int
    offsets: list[int] = field(default_factory=list)
    timestamps_ms: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    origins: list[bytes | None] = field(default_factory=list)
    held: HoldError | None = None
    left_out: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> "CommittedRecords":
        """The records below a central offset."""
        count = bisect.bisect_left(self.offsets, offset)
        return CommittedRecords(
            self.topic,
            self.partition,
            self.offsets[:count],
            self.timestamps_ms[:count],
            self.keys[:count],
            self.values[:count],
            self.origins[:count],
            left_out={one for one in self.left_out if one < offset},
        )


def central_partitions(
    cluster: ClusterConfig, names: Iterable[str], refused: dict[str, str] | None = None
) -> list[CentralPartition]:
    """Every partition of those topics that exist, with the topic's id.

    Args:
        cluster: Central.
        names: Topics.
        refused: Takes topics that cannot be described, with the reason; without it one of them is an error.

    Raises:
        Unreachable: the cluster does not answer.
    """
    if refused is None:
        found = topics.described(cluster, sorted(names))
    else:
        found, undescribed = topics.described_each(cluster, sorted(names))
        refused |= undescribed
    return [
        CentralPartition(topic.name, topic.topic_id, partition)
        for topic in found.values()
        for partition in range(topic.partitions)
    ]


def offset_bounds(
    cluster: ClusterConfig, partitions: Sequence[CentralPartition], refused: ends.PartitionErrors | None = None
) -> dict[CentralPartition, OffsetRange]:
    """What each partition holds: from its first offset to its last stable offset.

    Args:
        cluster: Central.
        partitions: Which.
        refused: Takes partitions that nobody answers for, with the reason; without it one of them is an error.

    Raises:
        Unreachable: the cluster does not answer.
    """
    readable = ends.readable_ranges(cluster, [(one.topic, one.partition) for one in partitions], refused=refused)
    return {one: readable[at] for one in partitions if (at := (one.topic, one.partition)) in readable}


def read_committed(
    cluster: ClusterConfig, ranges: Mapping[Partition, OffsetRange], *, max_bytes: int
) -> Iterator[CommittedRecords]:
    """Read ranges with a reader of their own, as `CommittedReader.read` does; no client where all of them are empty.

    Raises:
        Unreachable: the cluster does not answer.
    """
    if not any(map(len, ranges.values())):
        return
    reader = CommittedReader(cluster, max_bytes=max_bytes)
    try:
        yield from reader.read(ranges)
    finally:
        reader.close()


class CommittedReader:
    """One consumer that reads several ranges side by side.

    Args:
        cluster: Central.
        max_bytes: Bound of what is kept before it is handed out, and of the prefetch queue.
    """

    def __init__(self, cluster: ClusterConfig, *, max_bytes: int) -> None:
        self._consumer: Consumer = consumer(cluster, buffer_bytes=max_bytes)
        self._max_bytes = max_bytes

    def close(self) -> None:
        """Close the consumer."""
        self._consumer.close()

    def read(self, ranges: Mapping[Partition, OffsetRange]) -> Iterator[CommittedRecords]:
        """Read the committed records of ranges, each in order, in pieces of about `max_bytes` of keys and values.

        Args:
            ranges: Range [start, end) by topic and partition; `end` is at most the last stable offset.

        Yields:
            Pieces; one with `held` is the last of its partition, which cannot be read on.

        Raises:
            Unreachable: the cluster does not answer.
        """
        ends = {at: offsets.end for at, offsets in ranges.items() if len(offsets)}
        self._consumer.assign([TopicPartition(*at, ranges[at].start) for at in ends])
        sole = next(iter(ends)) if len(ends) == 1 else None
        pieces: dict[Partition, CommittedRecords] = {}
        size, quiet_since, trouble = 0, time.monotonic(), "nothing"
        while ends:
            before = size
            for at, messages in _runs(poll_batch(self._consumer, _CONSUME_RECORDS, _POLL_S), sole):
                if at not in ends:
                    continue
                piece = pieces.get(at)
                if piece is None:
                    piece = pieces[at] = CommittedRecords(*at)
                taken = _take(piece, messages, ends[at])
                size += taken.size
                trouble = taken.trouble or trouble
                if taken.ended:
                    del ends[at]
                    self._consumer.incremental_unassign([TopicPartition(*at)])
            if size > before:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > _TIMEOUT_S:
                raise _silent(ends, trouble)
            if size >= self._max_bytes:
                yield from pieces.values()
                pieces, size = {}, 0
        yield from (piece for piece in pieces.values() if len(piece) or piece.held)


def _ends(piece: CommittedRecords, message: Message, end: int) -> bool:
    """Whether nothing before `end` comes after this: an offset at or past it, or the end of what is committed."""
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's codes have such names
        # End-of-partition names the last stable offset as that broker knows it; a new leader may be behind `end`.
        return bool(message.offset() >= end)
    where = f"central: {piece.topic}-{piece.partition}"
    if error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):  # noqa: SLF001 - as above
        piece.held = HoldError(
            f"{where} no longer has the lake's next offset",
            hint="central's retention removed records before the lake read them; raise retention.ms of that topic",
        )
    elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
        piece.held = HoldError(f"{where} may not be read", hint="grant Read on it to the central principal")
    return piece.held is not None  # librdkafka retries after any other error; patience bounds it


def _silent(ends: Mapping[Partition, int], trouble: str) -> Unreachable:
    (topic, partition), end = next(iter(ends.items()))
    return Unreachable(
        f"central: {topic}-{partition} delivered {trouble} for {_TIMEOUT_S:.0f} s before offset {end}",
        hint="is the partition's leader up?",
    )


class _Taken(NamedTuple):
    """The result of taking messages: their bytes, whether the range has ended, and the last error's name."""

    size: int
    ended: bool = False
    trouble: str = ""


def _runs(messages: list[Message], sole: Partition | None) -> Iterator[tuple[Partition, list[Message]]]:
    """Consecutive messages of one partition, in order; `sole` where there is no other."""
    if sole is not None:
        if messages:
            yield sole, messages
        return
    start, places = 0, [(message.topic(), message.partition()) for message in messages]
    while start < len(messages):
        at = places[start]
        end = start + 1
        while end < len(messages) and places[end] == at:
            end += 1
        yield at, messages[start:end]
        start = end


def _take(piece: CommittedRecords, messages: list[Message], end: int) -> _Taken:
    """Take over the records before `end`."""
    errors = [message.error() for message in messages]
    # `any` is used because a KafkaError cannot be compared with None. An error of the client itself has no offset.
    if not any(errors) and messages[-1].offset() < end:
        return _Taken(_extend(piece, messages))
    size, trouble = 0, ""
    for message, error in zip(messages, errors, strict=True):
        if error is None and message.offset() < end:
            size += _extend(piece, [message])
        elif _ends(piece, message, end):
            return _Taken(size, ended=True, trouble=trouble)
        elif error is not None:
            trouble = error.name()
    return _Taken(size, trouble=trouble)


def _extend(piece: CommittedRecords, messages: list[Message]) -> int:
    """Take records over and tell their bytes, at least one each; column by column, because this is every record."""
    keys, values = [message.key() for message in messages], [message.value() for message in messages]
    piece.offsets += [message.offset() for message in messages]
    piece.timestamps_ms += [message.timestamp()[1] for message in messages]
    piece.keys += keys
    piece.values += values
    headers = [message.headers() for message in messages]
    # Most records have only this header. A function call for each of them would cost a twentieth of a lake task.
    piece.origins += [
        found[0][1] if found and len(found) == 1 and found[0][0] == ORIGIN_HEADER else _origin(found or ())
        for found in headers
    ]
    if None in values:
        records = zip(messages, values, headers, strict=True)
        piece.left_out.update(
            one.offset() for one, value, found in records if value is None and _is_left_out(found or ())
        )
    return len(messages) + sum(map(len, filter(None, keys))) + sum(map(len, filter(None, values)))


def _is_left_out(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    return any(name == LEFT_OUT_HEADER for name, _ in headers)


def _origin(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    origin = None
    for name, content in headers:
        if name == ORIGIN_HEADER:
            origin = content
    return origin
