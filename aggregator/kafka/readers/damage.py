"""This module finds the first readable offset behind a batch that cannot be read.

Invariant: nothing is skipped here. A broker returns the whole batch in which an offset lies. So every offset of a
damaged batch fails in the same way, and the first offset with another answer lies behind it.
"""

import time
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.readers.codes import Ignorable, when_reading
from aggregator.kafka.readers.polls import messages_until
from aggregator.kafka.readers.reader_events import FaultKind

# Less than half of a transaction's time-out, because the slot that asks may have a transaction open.
_TIMEOUT_S = 7.0
_UNKNOWN = -1


def readable_from(cluster: ClusterConfig, tp: Partition, offset: int, end: int) -> int | None:
    """The first offset behind `offset` from which records, or the end, can be read.

    Args:
        cluster: The edge.
        tp: The partition.
        offset: Where reading failed.
        end: The partition's last stable offset.

    Returns:
        None where `offset` can be read after all. Adjacent damaged batches count as one range, as far as the search
        gets before its deadline.

    Raises:
        Unreachable: the edge does not answer.
    """
    reader = clients.consumer(cluster, **{"queued.min.messages": 1})
    deadline = time.monotonic() + _TIMEOUT_S
    try:
        return next_readable_offset(
            lambda one: _damaged_at(reader, tp, one, deadline), offset, end, deadline - _TIMEOUT_S / 2
        )
    except KafkaException as failure:
        raise no_answer(tp, failure.args[0].str()) from None
    finally:
        reader.close()


def first_behind(reader: Consumer, tp: Partition, offset: int, end: int, deadline: float) -> int:
    """The first offset behind the damaged batch that lies at or after `offset`; that offset, if none does after all.

    Raises:
        Unreachable: the edge does not answer until `deadline`.
    """
    batch = _damaged_at(reader, tp, offset, deadline)
    return offset if batch is None else _behind(lambda one: _damaged_at(reader, tp, one, deadline), batch, offset, end)


def next_readable_offset(damaged_at: Callable[[int], int | None], offset: int, end: int, until_s: float) -> int | None:
    """Where a log can be read on behind damaged batches; None where it can be read at `offset`.

    Args:
        damaged_at: Where the batch begins that cannot be read, in which an offset lies; None where it can be read.
        offset: The offset at which reading failed.
        end: The partition's last stable offset.
        until_s: When no further batch is looked at, by the monotonic clock.
    """
    batch = damaged_at(offset)
    if batch is None:
        return None
    while batch is not None:
        offset = _behind(damaged_at, batch, offset, end)
        batch = damaged_at(offset) if offset < end and time.monotonic() < until_s else None
    return offset


def _behind(damaged_at: Callable[[int], int | None], batch: int, offset: int, end: int) -> int:
    """First offset behind the batch, which begins at `batch`; `offset` lies in it."""
    step = 1
    while offset + step < end and damaged_at(offset + step) == batch:
        offset, step = offset + step, step * 2
    low, high = offset + 1, min(offset + step, end)
    while low < high:
        middle = (low + high) // 2
        if damaged_at(middle) == batch:
            low = middle + 1
        else:
            high = middle
    return low


def _damaged_at(reader: Consumer, tp: Partition, offset: int, deadline: float) -> int | None:
    """Where the batch begins that cannot be read, in which `offset` lies; None where it can be read.

    The client tells where its batch begins, a broker that cannot read its own log does not.
    """
    reader.assign([TopicPartition(*tp, offset)])
    for message in messages_until(reader, deadline):
        error = message.error()
        meaning = None if error is None else when_reading(error.code())
        if error is None or meaning is Ignorable.END:
            return None
        if meaning is FaultKind.DAMAGED:
            begins = message.offset()
            return begins if error.code() < KafkaError.UNKNOWN and begins is not None else _UNKNOWN
        if meaning is FaultKind.POSITION_LOST:  # behind a damaged batch the library is off by some bytes
            reader.assign([TopicPartition(*tp, offset)])
        elif meaning is not Ignorable.BY_ITSELF:
            raise KafkaException(error)
    raise no_answer(tp, "no answer")


def no_answer(tp: Partition, why: str) -> Unreachable:
    """The error of a partition whose leader does not answer, with the reason."""
    return Unreachable(f"{tp[0]}-{tp[1]}: {why}", hint=ASK_DOCTOR)
