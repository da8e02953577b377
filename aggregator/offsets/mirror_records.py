"""Writes and parses MirrorMaker 2's checkpoints and offset syncs, which its clients and formatters read.

Invariant: pure; the bytes are those of Apache Kafka's connect-mirror (Checkpoint.java, OffsetSync.java): Kafka protocol
types, big-endian, and a checkpoint's value begins with its version. Both kinds are in partition 0 of a compacted topic.
A tombstone is never written, because Java's readers fail on it.
"""

import struct
from typing import NamedTuple

_VERSION = 0
_LENGTH = struct.Struct(">h")
_PARTITION = struct.Struct(">i")
_POSITIONS = struct.Struct(">qq")
_CHECKPOINT = struct.Struct(">hqq")


class Checkpoint(NamedTuple):
    """The offset at the target where a group of the source continues.

    Attributes:
        group: The group at the source.
        topic: The topic at the target.
        partition: The partition at both.
        upstream_offset: Offset that the group has committed at the source.
        downstream_offset: The same position at the target.
        metadata: Metadata of the commit.
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def encode_key(self) -> bytes:
        """STRING group, STRING topic, INT32 partition."""
        return _text(self.group) + _text(self.topic) + _PARTITION.pack(self.partition)

    def encode_value(self) -> bytes:
        """INT16 version, INT64 upstream offset, INT64 downstream offset, STRING metadata."""
        return _CHECKPOINT.pack(_VERSION, self.upstream_offset, self.downstream_offset) + _text(self.metadata)


class OffsetSync(NamedTuple):
    """The offsets of a record at the source and of its copy at the target.

    Attributes:
        topic: The topic at the source.
        partition: The partition at both.
        upstream_offset: Offset of the record.
        downstream_offset: Offset of its copy.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def encode_key(self) -> bytes:
        """Encode the key as STRING topic, INT32 partition."""
        return _text(self.topic) + _PARTITION.pack(self.partition)

    def encode_value(self) -> bytes:
        """INT64 upstream offset, INT64 downstream offset."""
        return _POSITIONS.pack(self.upstream_offset, self.downstream_offset)


def checkpoint(key: bytes | None, value: bytes | None) -> Checkpoint:
    """Decode a checkpoint from a record's key and value.

    Raises:
        ValueError: not exactly one of version 0.
    """
    group, rest = _take_text(key)
    topic, rest = _take_text(rest)
    partition = _partition(rest)
    if value is None or len(value) < _CHECKPOINT.size:
        raise ValueError("the value of a checkpoint is cut")
    version, upstream, downstream = _CHECKPOINT.unpack_from(value)
    metadata, rest = _take_text(value[_CHECKPOINT.size :])
    if version != _VERSION or rest or min(upstream, downstream) < 0:
        raise ValueError("not a checkpoint of version 0")
    return Checkpoint(group, topic, partition, upstream, downstream, metadata)


def offset_sync(key: bytes | None, value: bytes | None) -> OffsetSync:
    """Decode an offset sync from a record's key and value.

    Raises:
        ValueError: not exactly one.
    """
    topic, rest = _take_text(key)
    partition = _partition(rest)
    if value is None or len(value) != _POSITIONS.size:
        raise ValueError("not an offset sync")
    upstream, downstream = _POSITIONS.unpack(value)
    if min(upstream, downstream) < 0:
        raise ValueError("an offset sync has no such offset")
    return OffsetSync(topic, partition, upstream, downstream)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _take_text(data: bytes | None) -> tuple[str, bytes]:
    if data is None or len(data) < _LENGTH.size:
        raise ValueError("a text is cut")
    (length,) = _LENGTH.unpack_from(data)
    end = _LENGTH.size + length
    if length < 0 or len(data) < end:
        raise ValueError("a text has no sane length")
    return data[_LENGTH.size : end].decode(), data[end:]


def _partition(data: bytes) -> int:
    if len(data) != _PARTITION.size:
        raise ValueError("a key has no partition at its end")
    (partition,) = _PARTITION.unpack(data)
    if partition < 0:
        raise ValueError("a partition is none")
    return int(partition)
