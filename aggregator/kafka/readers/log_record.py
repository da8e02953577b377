"""This module defines a record of one of the hub's own topics, as it was read.

Invariant: values only. No client is imported here.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of an internal topic; `timestamp_ms` is central's stamp where the topic has its own."""

    partition: int
    offset: int
    key: str
    value: bytes | None
    timestamp_ms: int = 0


def latest_by_key(records: Iterable[LogRecord], prefix: str) -> list[LogRecord]:
    """The last record of each key that begins so; none of a key that was removed."""
    last = {record.key: record for record in records if record.key.startswith(prefix)}
    return [record for record in last.values() if record.value is not None]
