"""This module finds where an edge's log was truncated, that is, where the records that the hub had read end now.

Invariant: along a log, Kafka's leader epochs never decrease, and the epoch is raised before anything is written to a
log that may have lost its end. So records with a higher epoch than the last record that was read were written after the
cut.
"""

import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.kafka.client import clients
from aggregator.kafka.readers.codes import Ignorable, when_reading
from aggregator.kafka.readers.damage import first_behind, no_answer
from aggregator.kafka.readers.polls import messages_until
from aggregator.kafka.readers.reader_events import FaultKind, TruncationPoint

_TIMEOUT_S = 10.0
_SMALL = {"fetch.message.max.bytes": 64 * 1024, "queued.min.messages": 1}


def find_truncation(cluster: ClusterConfig, tp: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
    """Search a log, one record per step, for the end of what carries `leader_epoch` or a lower one.

    Raises:
        Unreachable: the edge does not answer.
    """
    reader = clients.consumer(cluster, **_SMALL)
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        return search(
            partial(_found_at, reader, tp, log.end, deadline),
            partial(_reaches, cluster, tp, leader_epoch, deadline),
            log,
            leader_epoch,
        )
    except KafkaException as failure:
        raise no_answer(tp, failure.args[0].str()) from None
    finally:
        reader.close()


class Found(NamedTuple):
    """Describes what lies at or after an offset.

    Attributes:
        record: Offset and leader epoch of the first record that can be read; None where there is none.
        damaged_upto: Where the damaged batches before it end; the offset itself, or less, where there is none.
    """

    record: tuple[int, int] | None
    damaged_upto: int


def search(
    found_at: Callable[[int], Found], reaches: Callable[[int], bool], log: OffsetRange, leader_epoch: int
) -> TruncationPoint:
    """The end of what carries `leader_epoch` or a lower one.

    Args:
        found_at: What lies at or after an offset.
        reaches: Whether the edge says that records of this epoch or a lower one reach to an offset. It costs more, and
            knows of damaged batches, too.
        log: Where to search.
        leader_epoch: Of what is old.
    """
    low, high, damaged_upto = log.start, log.end, log.start
    newer: tuple[int, int | None] | None = None
    while low < high:
        middle = (low + high) // 2
        record, upto = found_at(middle)
        if record is not None and record[1] <= leader_epoch:
            low = record[0] + 1
        else:
            high, newer, damaged_upto = middle, record or newer, upto
    behind = min(damaged_upto, log.end)
    if behind <= low or reaches(behind):
        return TruncationPoint(max(low, behind), *(newer or (None, None)))
    while low < behind - 1:
        middle = (low + behind) // 2
        low, behind = (middle, behind) if reaches(middle) else (low, middle)
    return TruncationPoint(low, low, newer and newer[1])


def _found_at(reader: Consumer, tp: Partition, end: int, deadline: float, offset: int) -> Found:
    """What a client meets at or after `offset`."""
    upto, start = offset, offset
    while start < end:
        found = _first(reader, tp, TopicPartition(*tp, start), deadline)
        if not isinstance(found, FaultKind):
            return Found(found, upto)
        if found is FaultKind.DAMAGED:
            start = upto = first_behind(reader, tp, start, end, deadline)
    return Found(None, upto)


def _reaches(cluster: ClusterConfig, tp: Partition, leader_epoch: int, deadline: float, offset: int) -> bool:
    """Whether what has `leader_epoch` or a lower one reaches to `offset`: the edge says so without reading it.

    A new client asks that of the first leader that it meets, before it reads anything.
    """
    reader = clients.consumer(cluster, **_SMALL)
    try:
        start = TopicPartition(*tp, offset, leader_epoch=leader_epoch)
        return _first(reader, tp, start, deadline) is not FaultKind.POSITION_LOST
    finally:
        reader.close()


def _first(
    reader: Consumer, tp: Partition, start: TopicPartition, deadline: float
) -> tuple[int, int] | FaultKind | None:
    """Offset and leader epoch of the first record from a start on, or why there is none; None at the end."""
    reader.assign([start])
    for message in messages_until(reader, deadline):
        error = message.error()
        if error is None:
            return message.offset() or 0, message.leader_epoch() or 0
        meaning = when_reading(error.code())
        if meaning is Ignorable.END:
            return None
        if meaning in {FaultKind.DAMAGED, FaultKind.POSITION_LOST}:
            return FaultKind(meaning)
    raise no_answer(tp, "no answer")
