"""The edge reader polls chunks of records from one edge's partitions, and reports positions, ends and faults.

Invariant: a position moves past markers and aborted records only by end-of-partition. A position that the edge no
longer has is a fault with its coordinates, never a reset. An edge without records costs its caller no time. A client
that cannot connect any more is replaced by a new one at the same positions.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.client.connection import Connection
from aggregator.kafka.client.statistics import EVERY_MS, OFTEN_MS
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.codes import Ignorable, name_of, when_reading
from aggregator.kafka.readers.damage import readable_from
from aggregator.kafka.readers.ends import leader_epoch
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition, TruncationPoint
from aggregator.kafka.readers.truncation import find_truncation

if TYPE_CHECKING:
    from aggregator.kafka.native.consumer import Consumer, Event


class EdgeReader:
    """Reads assigned partitions of one edge with read_committed isolation, prefetching at most `buffer_bytes`.

    A new reader should be assigned at once: librdkafka asks for a topic's leaders while it connects, and after that
    only every second.

    Args:
        cluster: The edge.
        buffer_bytes: Bound of the prefetch queue.
        rate: Bytes a second at which it will be read; None: as fast as it goes.
    """

    def __init__(self, cluster: ClusterConfig, *, buffer_bytes: int, rate: float | None = None) -> None:
        self._cluster, self._is_limited = cluster, rate is not None
        self._starts: dict[Partition, StartPosition] = {}
        slow = {} if rate is None else clients.slow_fetch(rate)
        buffer_bytes = buffer_bytes if rate is None else min(buffer_bytes, int(rate))
        connect = functools.partial(clients.bulk_consumer, buffer_bytes=buffer_bytes, **slow)
        self._connection: Connection[Consumer] = Connection(
            cluster, connect, every_ms=EVERY_MS if rate is None else OFTEN_MS
        )
        self.statistics = self._connection.statistics

    def assign(self, starts: Mapping[Partition, StartPosition]) -> None:
        """Read these partitions from there on and no others; drops what was prefetched, so it is also the rewind."""
        self._starts = dict(starts)
        self._read()

    def _read(self) -> None:
        if self._is_limited:
            self._connection.client.stop_fetching()  # fetches only what a poll asks for
        self._connection.client.assign([(*at, *start) for at, start in self._starts.items()])

    def incremental_assign(self, tp: Partition, start: StartPosition) -> None:
        """Read a released partition, too."""
        self._starts[tp] = start
        self._connection.client.incremental_assign([(*tp, *start)])

    def incremental_unassign(self, tp: Partition) -> None:
        """Stop reading one partition; the others go on."""
        if self._starts.pop(tp, None) is not None:
            self._connection.client.incremental_unassign([tp])

    def poll(self, max_records: int, timeout_s: float) -> PollResult:
        """Take what is there, waiting at most `timeout_s` seconds for the first record.

        With `max_records` 0 nothing is taken, and a reader that has a rate fetches nothing until it is asked again.
        """
        polled = PollResult()
        if not max_records:
            if self._is_limited:
                self._connection.client.stop_fetching()
            return polled
        if self._connection.renew():
            self._read()
        found = self._connection.client.poll(max_records, timeout_s)
        polled.served = found.served
        damaged: dict[Partition, int] = {}
        for event in found.events:
            self._note(event, polled, damaged)
        for at in damaged:
            polled.ends.pop(at, None)
        for chunk in found.chunks:
            whole = _before(chunk, damaged.get((chunk.topic, chunk.partition)))
            if whole is not None:
                self._move((chunk.topic, chunk.partition), whole.offsets[-1] + 1, whole.leader_epoch)
                polled.chunks.append(whole)
        return polled

    def _move(self, tp: Partition, offset: int, leader_epoch: int | None = None) -> None:
        if tp in self._starts:
            self._starts[tp] = StartPosition(
                offset, self._starts[tp].leader_epoch if leader_epoch is None else leader_epoch
            )

    def _note(self, event: "Event", polled: PollResult, damaged: dict[Partition, int]) -> None:
        if event.topic is None:
            return  # a broker's fault; librdkafka reconnects by itself
        at, meaning = (event.topic, event.partition), when_reading(event.code)
        if meaning is Ignorable.END:
            if at in self._starts and self._starts[at].offset != event.offset:
                polled.served.setdefault(event.broker, set()).add(event.topic)
            polled.ends[at] = event.offset
            self._move(at, event.offset)
        elif isinstance(meaning, FaultKind):
            polled.faults.append(Fault(at, meaning, f"{event.text} ({name_of(event.code)})"))
            if meaning is FaultKind.POSITION_LOST:
                polled.served.setdefault(event.broker, set()).add(event.topic)
            if meaning is FaultKind.DAMAGED:
                damaged[at] = min(event.offset, damaged.get(at, event.offset))

    def log_range(self, tp: Partition) -> OffsetRange:
        """The readable range of a partition: [first offset, last stable offset).

        Raises:
            Unreachable: the edge does not answer within three seconds.
        """
        try:
            low, high = self._connection.client.watermarks(*tp, 3.0)
        except KafkaException as failure:
            raise Unreachable(f"{tp[0]}-{tp[1]}: {failure.args[0].str()}", hint=ASK_DOCTOR) from None
        return OffsetRange(low, high)

    def leader_epoch(self, tp: Partition) -> int | None:
        """The epoch of the partition's present leader, if the edge tells it.

        Raises:
            Unreachable: the edge does not answer within three seconds.
        """
        return leader_epoch(self._cluster, tp, timeout_s=3.0)

    def find_truncation(self, tp: Partition, log: OffsetRange, leader_epoch: int) -> TruncationPoint:
        """Where a log was truncated, which was read up to a record of `leader_epoch`.

        Args:
            tp: The partition.
            log: What the edge has of it.
            leader_epoch: Of the last record that we had read.

        Raises:
            Unreachable: the edge does not answer within ten seconds.
        """
        return find_truncation(self._cluster, tp, log, leader_epoch)

    def readable_from(self, tp: Partition, offset: int) -> int | None:
        """The first readable offset behind a damaged batch; None if `offset` is readable after all.

        Raises:
            Unreachable: the edge does not answer within seven seconds.
        """
        return readable_from(self._cluster, tp, offset, self.log_range(tp).end)

    def close(self) -> None:
        """Close the connection to the edge."""
        self._connection.close()


def _before(chunk: Chunk, damaged: int | None) -> Chunk | None:
    """What of a chunk comes before a damaged batch, behind which the client reads on as if nothing were missing."""
    if damaged is None or chunk.offsets[-1] < damaged:
        return chunk
    return chunk.within(OffsetRange(0, damaged)) if chunk.offsets[0] < damaged else None
