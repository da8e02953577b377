"""What an audit reads: offsets at an edge, origins at central, dead letters; one partition or topic at a time.

Invariant: committed records only, up to an end that was fixed before; values are never looked at.
"""

import json
from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import Failed, HoldError
from aggregator.kafka import topics
from aggregator.kafka.committed import Committed, CommittedReader
from aggregator.kafka.ends import Partition
from aggregator.kafka.log import decided_ranges
from aggregator.kafka.names import HubNames
from aggregator.observe.tally import Offsets

_PIECE_BYTES = 8 * 1024 * 1024
Letters = Mapping[tuple[EdgePartition, int], Offsets]


def committed(cluster: ClusterConfig, wanted: Mapping[Partition, OffsetRange], what: str) -> Iterator[Committed]:
    """Committed records of these ranges, in pieces.

    Raises:
        HoldError: records of them were deleted meanwhile.
        Unreachable: no answer.
    """
    if not any(map(len, wanted.values())):
        return
    reader = CommittedReader(cluster, max_bytes=_PIECE_BYTES)
    try:
        for piece in reader.read(wanted):
            if piece.held is not None:
                raise HoldError(
                    f"{what}: partition {piece.partition} of {piece.topic} can not be read",
                    hint="were records deleted meanwhile, or is the right to read missing? run the audit again",
                )
            yield piece
    finally:
        reader.close()


def read_letters(cluster: ClusterConfig, names: HubNames) -> Letters:
    """Offsets of the hub's dead letters by flow and incarnation.

    Raises:
        Failed: a dead letter is none.
        Unreachable: no answer.
    """
    found: dict[tuple[EdgePartition, int], array[int]] = defaultdict(lambda: array("q"))
    count = topics.partition_count(cluster, names.dead_letters)
    wanted = decided_ranges(cluster, [(names.dead_letters, partition) for partition in range(count)]) if count else {}
    for piece in committed(cluster, wanted, "the dead letters"):
        for at, value in zip(piece.offsets, piece.values, strict=True):
            try:
                body = json.loads(value or b"")
                source = EdgePartition(body["edge"], body["topic"], body["partition"])
                found[source, body["incarnation"]].append(body["offset"])
            except (ValueError, KeyError, TypeError):
                raise Failed(f"{names.dead_letters} offset {at} is no dead letter of ours") from None
    return {at: np.frombuffer(offsets, np.int64) for at, offsets in found.items()}
