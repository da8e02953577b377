"""This module defines what a reader is told and what it reports: starts, records, ends, faults and cuts.

Invariant: values only. No client is imported here, so that code that decides can be tested with these values.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from aggregator.coordinates import Partition
from aggregator.kafka.native.chunk import Chunk


class FaultKind(StrEnum):
    """Why a partition cannot be read on; the kind decides what its flow does."""

    POSITION_LOST = "position_lost"
    TOPIC_GONE = "topic_gone"
    DENIED = "denied"
    DAMAGED = "damaged"
    FAILED = "failed"


class StartPosition(NamedTuple):
    """The start of a partition's reading: the next offset, and a leader epoch that no record before it exceeds.

    With the epoch, the client asks the edge whether its log still reaches to the offset. Without it, a log that was
    cut and has grown again looks whole. None means that the epoch is unknown.
    """

    offset: int
    leader_epoch: int | None = None


class Fault(NamedTuple):
    """Why a partition cannot be read on.

    Attributes:
        at: The partition.
        kind: Kind of the fault, which decides what its flow does.
        detail: What the client says, with the code's name.
    """

    at: Partition
    kind: FaultKind
    detail: str


@dataclass(slots=True)
class PollResult:
    """Holds the result of one poll.

    Attributes:
        chunks: Records, one chunk per partition.
        ends: Partitions whose end was reached, with the position behind markers.
        faults: Partitions that cannot be read on.
        served: Brokers (-1: nobody knows which) by which a position was moved or found to be lost, and in which topics.
    """

    chunks: list[Chunk] = field(default_factory=list)
    ends: dict[Partition, int] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    served: dict[int, set[str]] = field(default_factory=dict)


class TruncationPoint(NamedTuple):
    """The place where a log was cut: the end of the old records, and the first newer record's offset and epoch, if any.

    If the newer record cannot be read, the epoch is that of the first readable record behind it, or None.
    """

    end: int
    newer: int | None
    newer_epoch: int | None = None
