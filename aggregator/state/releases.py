"""Releases: ranges that a lake's quality gate holds and somebody lets pass, as records in the requests topic.

Invariant: a release names offsets of one partition of one life of a central topic, so that it lets pass what was there
to be seen and nothing that came later; it says who, when and why, and is never withdrawn. A damaged one is refused by
name.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from msgspec import Struct

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import Failed
from aggregator.kafka import topics
from aggregator.kafka.decoding import Count, Damaged, Moment, Number, TypedDecoder
from aggregator.kafka.log import read_to_end
from aggregator.kafka.log_record import LogRecord
from aggregator.state.names import HubNames

VERSION = 1
_RELEASES = "release/"


@dataclass(frozen=True, slots=True)
class Release:
    """Central offsets that a table may take although its suites say no.

    Attributes:
        table: Which one.
        partition: Of central.
        offsets: From start to end.
        by: Who decided.
        at_ms: When, by the clock of whoever decided.
        reason: Why.
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
        return f"{_RELEASES}{self.table}/{self.partition}/{self.offsets.start}-{self.offsets.end}"

    def encode(self) -> tuple[str, bytes]:
        """Key and value of its record."""
        return self.key, json.dumps(asdict(self) | {"v": VERSION}, sort_keys=True).encode()


def fold_releases(records: Iterable[LogRecord], topic: str) -> tuple[Release, ...]:
    """Every release.

    Raises:
        Failed: a damaged record that no later one replaces.
    """
    last = {record.key: record for record in records if record.key.startswith(_RELEASES)}
    return tuple(_decode(record, topic) for record in last.values() if record.value is not None)


def read_releases(cluster: ClusterConfig, names: HubNames) -> tuple[Release, ...]:
    """Every release, the topic read to its end; none before the hub's first run.

    Raises:
        Failed: a damaged record, or an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return ()
    return fold_releases(read_to_end(cluster, names.requests, [0]), names.requests)


class _Release(Struct, tag_field="v", tag=VERSION):
    table: str
    partition: tuple[str, str, Number]
    offsets: tuple[Count, Count]
    by: str
    at_ms: Moment
    reason: str


_DECODER = TypedDecoder(_Release)


def _decode(record: LogRecord, topic: str) -> Release:
    try:
        body = _DECODER.decode(record.value)
    except Damaged:
        raise Failed(
            f"{topic} offset {record.offset}: the request {record.key} is damaged",
            hint="replace it by a tombstone of the same key, then say `aggregator lake release` again",
        ) from None
    at, offsets = CentralPartition(*body.partition), OffsetRange(*body.offsets)
    return Release(body.table, at, offsets, body.by, body.at_ms, body.reason)
