"""A release lets a lake table take a range that its quality gate holds; it is a record in the requests topic.

Invariant: a release names offsets of one partition of one incarnation of a central topic, so it does not cover later
records. It says who, when and why, and is never withdrawn. A damaged release is named, and its range stays held.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from msgspec import Struct

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.kafka.readers.log_record import LogRecord, latest_by_key
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Moment, Number, TypedDecoder

VERSION = 1
_PREFIX = "release/"


@dataclass(frozen=True, slots=True)
class Release:
    """Central offsets that a table may take although its suites say no.

    Attributes:
        table: Name of the table.
        partition: Partition of central.
        offsets: Offsets from start to end.
        by: Name of the person who decided.
        at_ms: Time of the decision, by the clock of whoever decided.
        reason: Reason for the decision.
    """

    table: str
    partition: CentralPartition
    offsets: OffsetRange
    by: str
    at_ms: int
    reason: str

    @property
    def key(self) -> str:
        """One record per range, so that deciding twice is deciding once."""
        return f"{_PREFIX}{self.table}/{self.partition}/{self.offsets.start}-{self.offsets.end}"

    def encode(self) -> tuple[str, bytes]:
        """Encode the release as key and value of its record."""
        return self.key, json.dumps(asdict(self) | {"v": VERSION}, sort_keys=True).encode()


def fold_releases(records: Iterable[LogRecord]) -> tuple[Release, ...]:
    """Every release that can be read."""
    return tuple(release for release in map(_decoded, latest_by_key(records, _PREFIX)) if release is not None)


def damaged_releases(records: Iterable[LogRecord], topic: str) -> Iterator[str]:
    """A sentence for each damaged release."""
    for record in latest_by_key(records, _PREFIX):
        if _decoded(record) is None:
            yield (
                f"{topic} offset {record.offset}: the request {record.key} is damaged: its range stays held until"
                " `aggregator lake release` is said again"
            )


class _Release(Struct, tag_field="v", tag=VERSION):
    table: str
    partition: tuple[str, str, Number]
    offsets: tuple[Count, Count]
    by: str
    at_ms: Moment
    reason: str


_DECODER = TypedDecoder(_Release)


def _decoded(record: LogRecord) -> Release | None:
    """A release, if it is one and of the range that its key names."""
    try:
        body = _DECODER.decode(record.value)
    except CorruptRecord:
        return None
    at, offsets = CentralPartition(*body.partition), OffsetRange(*body.offsets)
    made = Release(body.table, at, offsets, body.by, body.at_ms, body.reason)
    return made if made.key == record.key else None
