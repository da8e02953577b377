"""A record of one of the hub's own topics, as it was read.

Invariant: a value alone; no client is imported here.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of an internal topic; `timestamp_ms` is central's stamp where the topic has its own."""

    partition: int
    offset: int
    key: str
    value: bytes | None
    timestamp_ms: int = 0
