"""This module reads all records in a range of a central partition, visible or not, so that they can be written again.

Invariant: a record is kept whole, with time and headers. Nothing is read past the range's end.
"""

import time
from collections.abc import Callable, Collection
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from aggregator.bytes_column import BytesColumn
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import BACKFILL_HEADER, ORIGIN_HEADER, Copy, OffsetRange, Origin, Partition, Position
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.header_columns import HeaderTable
from aggregator.kafka.client import clients
from aggregator.kafka.native.producer import OutgoingRecords
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.polls import poll_batch

_BOUND_S = 30.0
# The records of one window are kept in memory, and must be read within the time-out.
_WINDOW, _MAX_WINDOW = 2_000, 50_000


class CentralRecord(NamedTuple):
    """One record of a central topic."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def copy(self) -> Copy | None:
        """Which record it is a copy of, and who made it, if its headers say so."""
        headers = dict(self.headers)
        try:
            origin = Origin.decode(headers.get(ORIGIN_HEADER) or b"")
        except ValueError:
            return None
        return Copy(origin, (headers.get(BACKFILL_HEADER) or b"").decode(errors="replace"))


def newest_position(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    position_of: Callable[[Partition, CentralRecord], Position | None],
) -> Position | None:
    """The highest position of a visible record; each partition is searched from its end on, as far as one counts.

    Args:
        cluster: Central.
        partitions: Where to look.
        position_of: That of a record; None for one that does not count.

    Raises:
        Unreachable: central does not answer.
    """
    found: list[Position] = []
    for at, log in ends.readable_ranges(cluster, partitions).items():
        size, upto = _WINDOW, log.end
        while upto > log.start:
            window = OffsetRange(max(log.start, upto - size), upto)
            positions = [position_of(at, record) for record in read_range(cluster, at, window, committed=True)]
            if own := [position for position in positions if position is not None]:
                found += own
                break
            size, upto = min(_MAX_WINDOW, size * 4), window.start
    return max(found, default=None)


def rows(records: Collection[CentralRecord]) -> OutgoingRecords:
    """The records in the form in which they are produced."""
    keys, values, times, headers = zip(*records, strict=True)
    return OutgoingRecords(BytesColumn.of(keys), BytesColumn.of(values), times, HeaderTable.of(headers))


def read_range(cluster: ClusterConfig, tp: Partition, offsets: OffsetRange, *, committed: bool) -> list[CentralRecord]:
    """Read what lies in a range, in log order.

    Args:
        cluster: Central.
        tp: Topic and partition.
        offsets: Below the last stable offset where only what is committed is wanted. What retention deleted of it, or
            what went with a topic that was created again, is left out.
        committed: Whether only that; else records of open and aborted transactions too.

    Raises:
        Unreachable: the range was not read to its end in time.
    """
    first, end = (of(cluster, [tp])[tp] for of in (ends.start_offsets, ends.log_end_offsets))
    offsets = OffsetRange(max(first, offsets.start), min(end, offsets.end))
    if offsets.start >= offsets.end:
        return []
    made = clients.consumer if committed else clients.uncommitted_consumer
    reader, records, deadline = made(cluster), list[CentralRecord](), time.monotonic() + _BOUND_S
    trouble = "no answer"
    try:
        reader.assign([TopicPartition(*tp, offsets.start)])
        while time.monotonic() < deadline:
            for message in poll_batch(reader, 10_000, 0.05):
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - public code
                    trouble = error.name()
                    continue
                if (message.offset() or 0) >= offsets.end:
                    return records
                if error is None:
                    headers = tuple(message.headers() or ())
                    records.append(CentralRecord(message.key(), message.value(), message.timestamp()[1], headers))
                    if (message.offset() or 0) == offsets.end - 1:
                        return records
    except KafkaException as failure:
        raise Unreachable(f"{cluster.bootstrap_servers}: {failure.args[0].str()}", hint=ASK_DOCTOR) from None
    finally:
        reader.close()
    raise Unreachable(
        f"{tp[0]}-{tp[1]} at {cluster.bootstrap_servers} could not be read from {offsets.start} to {offsets.end}: "
        f"{trouble}",
        hint=ASK_DOCTOR,
    )
