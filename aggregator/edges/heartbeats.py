"""This module encodes and checks heartbeats in MirrorMaker 2's format, which go to an edge and arrive at central.

Invariant: a heartbeat is decoded, checked and encoded again. A record that is not exactly a heartbeat is a dead letter,
so that no topic bypasses the policy. Source: Apache Kafka's connect-mirror (Heartbeat.java), Kafka protocol types,
big-endian.
"""

import struct
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from aggregator.bytes_column import BytesColumn
from aggregator.errors import Reason
from aggregator.header_columns import HeaderTable
from aggregator.privacy.batch.strip import Batch, PolicyId, Rejection, ReportRow, Stripped

_VERSION = 0
_VALUE = struct.Struct(">hq")
_LENGTH = struct.Struct(">h")
_LONGEST_ALIAS = 249


class Heartbeat(NamedTuple):
    """One beat of the flow `source` -> `target`; `timestamp_ms` is the writer's clock."""

    source: str
    target: str
    timestamp_ms: int

    def encode_key(self) -> bytes:
        """Encode the key as STRING source, STRING target."""
        return b"".join(_LENGTH.pack(len(text)) + text for text in (self.source.encode(), self.target.encode()))

    def encode_value(self) -> bytes:
        """Encode the value as INT16 version, INT64 timestamp."""
        return _VALUE.pack(_VERSION, self.timestamp_ms)


def decode(key: bytes | None, value: bytes | None) -> Heartbeat:
    """Decode one heartbeat from a record's key and value.

    Raises:
        ValueError: not exactly a version 0 heartbeat with sane aliases.
    """
    if key is None or value is None or len(value) != _VALUE.size:
        raise ValueError("not a heartbeat")
    aliases: list[str] = []
    rest = key
    while rest and len(aliases) < 2:  # noqa: PLR2004 - source and target
        if len(rest) < _LENGTH.size:
            raise ValueError("the key is cut")
        (length,) = _LENGTH.unpack_from(rest)
        text = rest[_LENGTH.size : _LENGTH.size + length]
        if not 0 < length <= _LONGEST_ALIAS or len(text) != length:
            raise ValueError("an alias has no sane length")
        aliases.append(text.decode())
        rest = rest[_LENGTH.size + length :]
    version, timestamp_ms = _VALUE.unpack(value)
    if rest or len(aliases) != 2 or version != _VERSION or timestamp_ms < 0:  # noqa: PLR2004
        raise ValueError("not a version 0 heartbeat")
    return Heartbeat(aliases[0], aliases[1], timestamp_ms)


class HeartbeatStrip:
    """Strips a heartbeats topic: every record is decoded and encoded again, headers are dropped."""

    policy = PolicyId("heartbeats", 1, "")

    def key_versions(self) -> Mapping[str, int]:
        """Nothing, because no key is used for a heartbeat."""
        return {}

    def report(self) -> list[ReportRow]:
        """Nothing, because a policy has no fields of a heartbeat to treat."""
        return []

    def strip(self, batch: Batch) -> Stripped:
        """Check every beat; whatever is none is rejected."""
        keys: list[bytes | None] = []
        values: list[bytes | None] = []
        rejected: dict[int, Rejection] = {}
        for index, (key, value) in enumerate(zip(batch.keys, batch.values, strict=True)):
            try:
                beat = decode(key, value)
            except ValueError:
                rejected[index] = Rejection(Reason.BAD_HEARTBEAT)
                keys.append(None)
                values.append(None)
            else:
                keys.append(beat.encode_key())
                values.append(beat.encode_value())
        return Stripped(
            BytesColumn.of(keys), BytesColumn.of(values), HeaderTable.empty(len(keys)), rejected, counts=Counter()
        )
