"""Reads back what arrived, independently of the hub's own counters: central record by record, and the lake's live
files.

Invariant: only committed records and committed files are counted, up to an end that is fixed once at the beginning.
"""

from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path

import polars as pl

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.errors import Unreachable
from aggregator.kafka.cluster.topics import partition_count
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.ends import readable_ranges
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import StartPosition

_BUFFER_BYTES = 16 * 1024 * 1024
_BATCH = 10_000
_WAIT_S = 0.2
# After so many polls without a new record a broker counts as gone: half a minute.
_EMPTY_POLLS = 150


def read_topic(cluster: ClusterConfig, topic: str) -> Generator[Chunk]:
    """Every committed record that a topic has now, in log order within each partition.

    Raises:
        Unreachable: the cluster does not answer, or stops answering.
    """
    partitions = [(topic, partition) for partition in range(partition_count(cluster, topic))]
    left = {at: log for at, log in readable_ranges(cluster, partitions).items() if len(log)}
    reader = EdgeReader(cluster, buffer_bytes=_BUFFER_BYTES)
    try:
        reader.assign({at: StartPosition(log.start) for at, log in left.items()})
        ends = {at: log.end for at, log in left.items()}
        yield from _until(reader, ends, f"{topic} at {cluster.bootstrap_servers}")
    finally:
        reader.close()


def _until(reader: EdgeReader, left: dict[Partition, int], what: str) -> Iterator[Chunk]:
    empty = 0
    while left:
        polled = reader.poll(_BATCH, _WAIT_S)
        empty = 0 if polled.chunks or polled.ends else empty + 1
        if polled.faults or empty > _EMPTY_POLLS:
            detail = polled.faults[0].detail if polled.faults else "no answer"
            raise Unreachable(f"{what} cannot be read to its end: {detail}", hint="check that the cluster runs")
        yield from polled.chunks
        reached = {(chunk.topic, chunk.partition): chunk.offsets[-1] + 1 for chunk in polled.chunks} | polled.ends
        for at, offset in reached.items():
            if offset >= left.get(at, offset + 1):
                del left[at]


def count_topic(cluster: ClusterConfig, topic: str) -> int:
    """Count the committed records of a topic."""
    return sum(map(len, read_topic(cluster, topic)))


def count_lake(table: Path) -> Counter[str]:
    """Rows of a Delta table by edge; none if the table is not there."""
    if not (table / "_delta_log").is_dir():
        return Counter()
    rows = pl.scan_delta(str(table)).group_by("_edge").len().collect()
    return Counter(dict(rows.iter_rows()))
