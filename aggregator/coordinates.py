"""This module defines frozen values for *where* a record lies: edge partitions, offset ranges, positions and origins.

Invariant: ranges are half-open. A position names the *next* offset. Positions compare by (incarnation, offset).
"""

import sys
from collections.abc import Sequence
from typing import NamedTuple, Self

from aggregator.count_text import format_first

ORIGIN_HEADER = "hub.origin"
SEAL_HEADER = "hub.origin.mac"
CHAIN_HEADER = "hub.chain"
BACKFILL_HEADER = "hub.backfill"
# The header of a notice: a restate writes one, without key and value, for each record that yields no copy.
LEFT_OUT_HEADER = "hub.left-out"
# Headers that only the hub may write; a policy cannot pass those of a producer at an edge.
OWN_HEADERS = frozenset((ORIGIN_HEADER, SEAL_HEADER, CHAIN_HEADER, BACKFILL_HEADER, LEFT_OUT_HEADER))
# The name of the central cluster where clusters are told apart by name.
CENTRAL = "central"
# The topic of heartbeats at an edge; the name is MirrorMaker 2's.
HEARTBEATS = "heartbeats"
# An origin ends with three numbers: partition, offset, incarnation. A further tombstone has a fourth.
_NUMBERS = 3
# Of so many topics a partition is named where a sentence speaks of many flows.
_MAX_TOPICS = 3


class EdgePartition(NamedTuple):
    """The source of one flow: a partition of a topic on an edge. Its text form is the key of ledger records."""

    edge: str
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.edge}/{self.topic}/{self.partition}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form; edge and topic names hold no slash (Kafka's own rule for topics).

        Raises:
            ValueError: `text` is not edge/topic/partition.
        """
        edge, topic, partition = text.split("/")
        # Interned texts make a large ledger smaller, and flows are compared without comparing characters.
        return cls(sys.intern(edge), sys.intern(topic), int(partition))


def format_flows(sources: Sequence[EdgePartition]) -> str:
    """Some flows in a sentence: one partition of each of the first topics, and the number of all others.

    Args:
        sources: The flows, in the order in which they are named; `eu/orders/0, eu/sales/1 and 7 more`.
    """
    first: dict[tuple[str, str], EdgePartition] = {}
    for source in sources:
        first.setdefault((source.edge, source.topic), source)
    named = list(first.values())[:_MAX_TOPICS]
    return format_first([*named, *sources[len(named) :]], len(named))


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    start: int
    end: int

    def __len__(self) -> int:
        return max(0, self.end - self.start)


class IncarnationRange(NamedTuple):
    """Offsets of an edge's log that belong to one incarnation."""

    incarnation: int
    offsets: OffsetRange


class Position(NamedTuple):
    """The next offset to read, within one incarnation of an edge topic.

    The incarnation grows when the edge topic's id changes or a person accepts a rewind; positions compare by
    incarnation first.
    """

    incarnation: int
    next_offset: int


class Origin(NamedTuple):
    """The source of a central record; it travels as header `hub.origin`, readable with kcat.

    `tombstone` numbers the further tombstones of one record, under the tokens that its key has by other versions of the
    policy's key, from 1 on; 0 is the record itself.
    """

    hub: str
    edge: str
    topic: str
    partition: int
    offset: int
    incarnation: int
    tombstone: int = 0

    def encode(self) -> bytes:
        """`<hub>/<edge>/<topic>/<partition>/<offset>/<incarnation>` in UTF-8, and `/<tombstone>` for a further one."""
        return "/".join(map(str, self if self.tombstone else self[:-1])).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Decode an origin from the value of its header.

        Raises:
            ValueError: the bytes are not an origin.
        """
        hub, edge, topic, *numbers = value.decode().split("/")
        further = [] if len(numbers) > _NUMBERS else ["0"]
        partition, offset, incarnation, tombstone = map(int, [*numbers, *further])
        return cls(hub, edge, topic, partition, offset, incarnation, tombstone)


class Copy(NamedTuple):
    """One copy of an edge's record, or its dead letter, with the origin and the backfill that wrote it."""

    origin: Origin
    backfill: str = ""


Partition = tuple[str, int]
# The name of a schema at a registry: its id, or its GUID if records use that.
SchemaName = int | str


class CentralPartition(NamedTuple):
    """A partition of a central topic, in the incarnation that `topic_id` names."""

    topic: str
    topic_id: str
    partition: int

    @property
    def place(self) -> str:
        """`central eu.orders-0`, for people: without the id."""
        return f"central {self.topic}-{self.partition}"

    def __str__(self) -> str:
        return f"{self.topic}@{self.topic_id}-{self.partition}"
