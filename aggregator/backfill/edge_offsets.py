"""Offsets at which an edge still has a record: what a row that got no new one must be judged by.

Invariant: reads only, and never an offset outside of those that are asked about. An edge that does not answer is an
error: taking its silence for a deletion would keep, or remove, rows by chance.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from aggregator.backfill.affected_rows import Numbers, Origins, offset_of
from aggregator.backfill.plan import PartitionPlan
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import RetryError
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.committed_reader import read_committed

_PIECE_BYTES = 8 * 1024 * 1024


def at_edge(edges: Mapping[str, ClusterConfig], plans: Iterable[PartitionPlan], origins: Origins) -> Origins:
    """Which of these origins an edge still has a record of.

    Args:
        edges: Clusters by name.
        plans: Of their flows; where a topic was made anew since, all of its former records are gone.
        origins: What is asked about, within what these plans write.

    Raises:
        RetryError: an edge deletes records while it is asked.
        Unreachable: an edge does not answer.
    """
    asked = {one: origins[one.source] for one in plans if len(origins.get(one.source, ()))}
    return {one.source: _there(edges[one.source.edge], one, numbers) for one, numbers in asked.items()}


def _there(cluster: ClusterConfig, plan: PartitionPlan, numbers: Numbers) -> Numbers:
    source = plan.source
    at = (source.topic, source.partition)
    shown = topics.described(cluster, {source.topic}).get(source.topic)
    if shown is None or shown.topic_id != plan.topic_id or source.partition >= shown.partitions:
        return numbers[:0]
    log = ends.readable_ranges(cluster, [at])[at]
    offsets = offset_of(numbers)
    wanted = OffsetRange(max(log.start, int(offsets.min())), min(log.end, int(offsets.max()) + 1))
    if not len(wanted):
        return numbers[:0]
    return numbers[np.isin(offsets, _read(cluster, source, wanted))]


def _read(cluster: ClusterConfig, source: EdgePartition, wanted: OffsetRange) -> Numbers:
    """Offsets of the committed records in a range of a log."""
    found = [np.zeros(0, np.int64)]
    for piece in read_committed(cluster, {(source.topic, source.partition): wanted}, max_bytes=_PIECE_BYTES):
        if piece.held is not None:
            raise RetryError(
                f"{source}: records were deleted while the edge was asked which it still has",
                hint="resume this restate",
            )
        found.append(np.array(piece.offsets, np.int64))
    return np.concatenate(found)
