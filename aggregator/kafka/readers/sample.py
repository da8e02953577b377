"""A sample: the newest committed records of a topic, for a person who asks what is in it.

Invariant: bounded in records and in time; reads read_committed and without a group, as everywhere. There may be fewer
records than asked for, because markers and aborted records take offsets too.
"""

import time
from collections.abc import Mapping
from itertools import chain, islice

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import Failed, Unreachable
from aggregator.header_columns import Headers
from aggregator.kafka.cluster.topics import partition_count
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import Start

_BUFFER_BYTES = 16 * 1024 * 1024
_WAIT_S = 0.2
_PATIENCE_S = 15.0
Record = tuple[bytes | None, bytes | None, Headers | None]


def newest(cluster: ClusterConfig, topic: str, count: int) -> list[Record]:
    """The last records of every partition, `count` in all at most, as (key, value, headers).

    Raises:
        Failed: the cluster has no such topic.
        Unreachable: the cluster does not answer within the patience.
    """
    partitions = [(topic, partition) for partition in range(partition_count(cluster, topic))]
    if not partitions:
        raise Failed(
            f"{cluster.bootstrap_servers} has no topic {topic}", hint="look at the name, and at the principal's rights"
        )
    newest = {
        at: OffsetRange(max(log.start, log.end - count), log.end)
        for at, log in ends.readable_ranges(cluster, partitions).items()
        if len(log)
    }
    read = _read(cluster, newest, time.monotonic() + _PATIENCE_S) if newest else {}
    # One of each partition in turn, the newest first, so that no partition hides the others.
    turns = (records[::-1] for records in read.values())
    return list(islice(chain.from_iterable(_in_turn(list(turns))), count))


def _read(
    cluster: ClusterConfig, ranges: Mapping[Partition, OffsetRange], deadline: float
) -> dict[Partition, list[Record]]:
    found: dict[Partition, list[Record]] = {at: [] for at in ranges}
    left = set(ranges)
    reader = EdgeReader(cluster, buffer_bytes=_BUFFER_BYTES)
    try:
        reader.assign({at: Start(offsets.start) for at, offsets in ranges.items()})
        while left:
            if time.monotonic() > deadline:
                raise Unreachable(f"{cluster.bootstrap_servers} stopped answering", hint="check that the broker runs")
            polled = reader.poll(10_000, _WAIT_S)
            for chunk in polled.chunks:
                found[chunk.topic, chunk.partition] += _records(chunk)
            reached = {(chunk.topic, chunk.partition): chunk.offsets[-1] + 1 for chunk in polled.chunks} | polled.ends
            left -= {at for at, offset in reached.items() if offset >= ranges[at].end}
            if polled.faults:
                raise Unreachable(f"{cluster.bootstrap_servers}: {polled.faults[0].detail}", hint="check its rights")
    finally:
        reader.close()
    return found


def _records(chunk: Chunk) -> list[Record]:
    return list(zip(chunk.keys, chunk.values, chunk.headers, strict=True))


def _in_turn(queues: list[list[Record]]) -> list[list[Record]]:
    longest = max(map(len, queues), default=0)
    return [[queue[place] for queue in queues if place < len(queue)] for place in range(longest)]
