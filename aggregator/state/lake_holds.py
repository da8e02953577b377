"""This module records which of the lake's tables cannot go on, and why.

It is one record in the topic of edge states, written by the process that runs the lake.

Invariant: a hold counts only while its table is still at the position where it was held, so an old record hides no
progress. A hold contains names, offsets and a reason, and no content of a record.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

from msgspec import Meta, Struct

from aggregator.coordinates import CentralPartition
from aggregator.count_text import format_first
from aggregator.kafka.readers.typed_decoder import Count, Moment, Number, TypedDecoder

KEY = "lake"
VERSION = 1
# The most holds that are named, and the longest reason, so that the record stays small.
_MOST, _LONGEST = 500, 600


@dataclass(frozen=True, slots=True)
class LakeHold:
    """One partition of a table that cannot go on, or a whole table.

    Attributes:
        table: Its name.
        topic: Central topic; empty where the whole table stands.
        partition: Partition of that topic.
        next_offset: Offset at which the table stands.
        since_ms: Time at which the hold began, by the clock of whoever runs the lake.
        reason: Reason for the hold, and the next step.
    """

    table: str
    topic: str
    partition: int
    next_offset: int
    since_ms: int
    reason: str

    @property
    def place(self) -> str:
        """`orders: central eu.orders-0 at offset 17`, or the table's name."""
        at = f": central {self.topic}-{self.partition} at offset {self.next_offset}" if self.topic else ""
        return f"{self.table}{at}"

    def stands(self, positions: Mapping[CentralPartition, int], ends: Mapping[CentralPartition, int]) -> bool:
        """Whether the table is still where it was held.

        Args:
            positions: The table's next offsets.
            ends: Last stable offsets of central.
        """
        if not self.topic:
            return any(positions.get(one, 0) < end for one, end in ends.items())
        return any(
            (one.topic, one.partition, offset) == (self.topic, self.partition, self.next_offset)
            for one, offset in positions.items()
        )

    def plain(self) -> dict[str, object]:
        """The JSON object that `-o json` promises for a hold."""
        return {
            "topic": self.topic or None,
            "partition": self.partition if self.topic else None,
            "next_offset": self.next_offset if self.topic else None,
            "since_ms": self.since_ms,
            "reason": self.reason,
        }


def group_by_reason(holds: Iterable[LakeHold]) -> list[tuple[list[LakeHold], str]]:
    """Holds by their reason: one entry for all partitions of a table with the same reason."""
    found: dict[tuple[str, str], list[LakeHold]] = {}
    for one in holds:
        found.setdefault((one.table, one.reason), []).append(one)
    return [(alike, reason) for (_, reason), alike in found.items()]


def format_places(holds: Sequence[LakeHold]) -> str:
    """The place of the first hold, and how many others there are."""
    return format_first([one.place for one in holds], 1)


def holds_record(holds: Sequence[LakeHold]) -> tuple[str, bytes]:
    """Key and value of the record that lists all holds."""
    rows = [asdict(one) | {"reason": one.reason[:_LONGEST]} for one in holds[:_MOST]]
    return KEY, json.dumps({"v": VERSION, "holds": rows}, separators=(",", ":")).encode()


class _Hold(Struct):
    table: str
    topic: str
    partition: Number
    next_offset: Count
    since_ms: Moment
    reason: Annotated[str, Meta(max_length=_LONGEST)]


class _Holds(Struct, tag_field="v", tag=VERSION):
    holds: Annotated[list[_Hold], Meta(max_length=_MOST)]


_HOLDS = TypedDecoder(_Holds)


def decode_holds(value: bytes | None) -> tuple[LakeHold, ...]:
    """Read `holds_record`'s value.

    Raises:
        CorruptRecord: it is none.
    """
    found: Iterable[_Hold] = () if value is None else _HOLDS.decode(value).holds
    return tuple(
        LakeHold(one.table, one.topic, one.partition, one.next_offset, one.since_ms, one.reason) for one in found
    )
