"""Reads what an audit compares: offsets at an edge, origins at central, dead letters; one partition or topic at a time.

Invariant: only committed records are read, up to an end that was fixed before. Values are never looked at.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from aggregator.audit.tally import Offsets
from aggregator.config.model import ClusterConfig
from aggregator.coordinates import EdgePartition, OffsetRange, Partition
from aggregator.errors import HoldError
from aggregator.kafka.readers.committed_reader import CommittedRecords, read_committed
from aggregator.state.letter_log import read_letters
from aggregator.state.names import HubNames

_PIECE_BYTES = 8 * 1024 * 1024
Letters = Mapping[tuple[EdgePartition, int], Offsets]


def committed(cluster: ClusterConfig, wanted: Mapping[Partition, OffsetRange], what: str) -> Iterator[CommittedRecords]:
    """Committed records of these ranges, in pieces.

    Raises:
        HoldError: records of them were deleted meanwhile.
        Unreachable: no answer.
    """
    for piece in read_committed(cluster, wanted, max_bytes=_PIECE_BYTES):
        if piece.held is not None:
            raise HoldError(
                f"{what}: partition {piece.partition} of {piece.topic} cannot be read",
                hint="were records deleted meanwhile, or is the right to read missing? run the audit again",
            )
        yield piece


def letter_offsets(cluster: ClusterConfig, names: HubNames) -> Letters:
    """Offsets of the hub's dead letters by flow and incarnation.

    A letter whose record a replay delivered is left out: central must have the record. If a rule suppresses the record
    by now, it counts among the suppressed ones.

    Raises:
        FatalError: a later version wrote a letter.
        Unreachable: no answer.
    """
    found: dict[tuple[EdgePartition, int], array[int]] = defaultdict(lambda: array("q"))
    for letter in read_letters(cluster, names):
        if not letter.resolved_by:
            found[letter.source, letter.incarnation].append(letter.offset)
    return {at: np.frombuffer(offsets, np.int64) for at, offsets in found.items()}
