"""What a reader was told and what it found: where to start, records, ends, faults, cuts.

Invariant: values alone; no client is imported here, so that what decides can be made of them.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from aggregator.coordinates import Partition
from aggregator.kafka.native.chunk import Chunk


class FaultKind(StrEnum):
    """Why a partition cannot be read on: what its flow does about it."""

    POSITION_LOST = "position_lost"
    TOPIC_GONE = "topic_gone"
    DENIED = "denied"
    DAMAGED = "damaged"
    FAILED = "failed"


class Start(NamedTuple):
    """Where a partition is read from: the next offset, and a leader epoch that no record before it exceeds.

    With the epoch the client asks the edge whether its log still reaches to the offset; one that was cut and has grown
    again looks whole otherwise. None: nobody knows.
    """

    offset: int
    leader_epoch: int | None = None


class Fault(NamedTuple):
    """Why a partition cannot be read on.

    Attributes:
        at: The partition.
        kind: What its flow does about it.
        detail: What the client says, with the code's name.
    """

    at: Partition
    kind: FaultKind
    detail: str


@dataclass(slots=True)
class Polled:
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


class Cut(NamedTuple):
    """Offset behind the last old record; offset and leader epoch of the first newer one, if there is any.

    Of one that nobody can read, the epoch is that of the first behind it; None where there is none.
    """

    end: int
    newer: int | None
    newer_epoch: int | None = None
