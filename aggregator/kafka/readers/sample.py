"""This module reads a sample of a topic for a person: its newest committed records, or the records at an offset.

Invariant: bounded in records and in time. It reads read_committed and without a group, as all readers do. Markers,
aborted records and compacted records take offsets too. The search for the newest records therefore goes further and
further back, up to a bound.
"""

import time
from collections.abc import Generator, Mapping
from contextlib import closing
from itertools import chain, islice
from typing import NamedTuple

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import ASK_DOCTOR, FatalError, Unreachable
from aggregator.header_columns import Headers
from aggregator.kafka.cluster.topics import partition_count
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import StartPosition

_BUFFER_BYTES = 16 * 1024 * 1024
_WAIT_S = 0.2
_TIMEOUT_S = 30.0
_KEPT_BYTES = 256 * 1024 * 1024
SEARCHED_OFFSETS = 100_000  # counted from the end of each partition
_WIDER = 8
# Partitions that are read at once. Reading stops when enough records are found, as each may have all that are needed.
_PARTITIONS = 32
Record = tuple[bytes | None, bytes | None, Headers | None]


class Sampled(NamedTuple):
    """A record where it lies: its partition, its offset, its timestamp in ms, and its key, value and headers."""

    partition: int
    offset: int
    stamp_ms: int
    record: Record


def newest_records(cluster: ClusterConfig, topic: str, count: int, *, partition: int | None = None) -> list[Sampled]:
    """The last records of every partition, or of one, `count` in all at most; older ones than a bound are not found.

    Raises:
        FatalError: the cluster has no such topic or partition.
        Unreachable: the cluster does not answer within the patience.
    """
    logs = sorted(_logs(cluster, topic, partition).items())
    until_s = time.monotonic() + _TIMEOUT_S
    found: list[list[Sampled]] = []
    for begin in range(0, len(logs), _PARTITIONS):
        found += _newest(cluster, dict(logs[begin : begin + _PARTITIONS]), count, until_s)
        if sum(map(len, found)) >= count or time.monotonic() > until_s:
            break
    # The partitions take turns with their newest records, so that no partition hides the others.
    return list(islice(chain.from_iterable(_in_turn([records[::-1] for records in found])), count))


def _newest(
    cluster: ClusterConfig, logs: Mapping[Partition, OffsetRange], count: int, until_s: float
) -> list[list[Sampled]]:
    """The last records of each of these partitions, as far back as it takes for so many in all, and as time allows."""
    found: dict[Partition, list[Sampled]] = {at: [] for at in logs}
    ranges, depth = {at: OffsetRange(log.end, log.end) for at, log in logs.items()}, -(-count // max(1, len(logs)))
    left_bytes = _KEPT_BYTES
    while sum(map(len, found.values())) < count and depth < SEARCHED_OFFSETS * _WIDER:
        if left_bytes < 0 or time.monotonic() > until_s:
            break
        ranges = {
            at: OffsetRange(max(logs[at].start, logs[at].end - min(depth, SEARCHED_OFFSETS)), read.start)
            for at, read in ranges.items()
        }
        further: dict[Partition, list[Sampled]] = {at: [] for at in logs}
        with closing(_read(cluster, ranges, until_s)) as read:
            for at, records in read:
                further[at] = (further[at] + records)[-count:]
                left_bytes -= sum(len(one.record[1] or b"") for one in records)
                if left_bytes < 0:
                    break
        found = {at: (further[at] + found[at])[-count:] for at in logs}
        depth *= _WIDER
    return list(found.values())


def records_from(cluster: ClusterConfig, topic: str, partition: int, offset: int, count: int) -> list[Sampled]:
    """The first records at or behind an offset, `count` at most.

    Raises:
        FatalError: the cluster has no such topic or partition, or the partition no such offset.
        Unreachable: the cluster does not answer within the patience.
    """
    (log,) = _logs(cluster, topic, partition).values()
    if not log.start <= offset < log.end:
        there = f"offsets {log.start} to {log.end - 1}" if len(log) else "no record"
        raise FatalError(
            f"{topic}-{partition} has no offset {offset}, but {there}", hint="leave the offset out: the newest"
        )
    found: list[Sampled] = []
    until_s = time.monotonic() + _TIMEOUT_S
    with closing(_read(cluster, {(topic, partition): OffsetRange(offset, log.end)}, until_s)) as read:
        for _, records in read:
            found += records
            if len(found) >= count:
                break
    return found[:count]


def _logs(cluster: ClusterConfig, topic: str, partition: int | None) -> dict[Partition, OffsetRange]:
    partitions = partition_count(cluster, topic)
    if not partitions:
        raise FatalError(
            f"{cluster.bootstrap_servers} has no topic {topic}", hint="look at the name, and at the principal's rights"
        )
    if partition is not None and partition >= partitions:
        raise FatalError(f"{topic} has no partition {partition}", hint=f"it has {partitions}, from 0")
    asked = range(partitions) if partition is None else [partition]
    return ends.readable_ranges(cluster, [(topic, one) for one in asked])


def _read(
    cluster: ClusterConfig, ranges: Mapping[Partition, OffsetRange], until_s: float
) -> Generator[tuple[Partition, list[Sampled]]]:
    """The records of each range, as they arrive until a moment on the monotonic clock.

    Raises:
        Unreachable: nothing arrived until then.
    """
    left = {at for at, offsets in ranges.items() if offsets}
    if not left:
        return
    has_answered = False
    reader = EdgeReader(cluster, buffer_bytes=_BUFFER_BYTES)
    try:
        reader.assign({at: StartPosition(ranges[at].start) for at in left})
        while left:
            if time.monotonic() > until_s:
                if has_answered:
                    return
                raise Unreachable(f"{cluster.bootstrap_servers} stopped answering", hint=ASK_DOCTOR)
            polled = reader.poll(10_000, _WAIT_S)
            has_answered = has_answered or bool(polled.chunks or polled.ends)
            for chunk in polled.chunks:
                at = (chunk.topic, chunk.partition)
                yield at, [one for one in _records(chunk) if one.offset < ranges[at].end]
            reached = {(chunk.topic, chunk.partition): chunk.offsets[-1] + 1 for chunk in polled.chunks} | polled.ends
            left -= {at for at, offset in reached.items() if offset >= ranges[at].end}
            if polled.faults:
                raise Unreachable(f"{cluster.bootstrap_servers}: {polled.faults[0].detail}", hint="check its rights")
    finally:
        reader.close()


def _records(chunk: Chunk) -> list[Sampled]:
    records = zip(chunk.keys, chunk.values, chunk.headers, strict=True)
    return [Sampled(chunk.partition, *at) for at in zip(chunk.offsets, chunk.timestamps_ms, records, strict=True)]


def _in_turn(queues: list[list[Sampled]]) -> list[list[Sampled]]:
    longest = max(map(len, queues), default=0)
    return [[queue[place] for queue in queues if place < len(queue)] for place in range(longest)]
