"""Reads and writes Connect's records of MirrorMaker 2: its source offsets, and its number of exactly-once tasks.

Invariant: pure. Connect keeps the offset of the *last copied* record; positions here are the *next* offset. The last
record of a key counts, and a tombstone forgets it. Several offsets of one source partition are refused. Records of
another connector or another cluster are skipped. A record of this connector that is not an offset is refused by name.
Source: OffsetStorageWriter, MirrorUtils.wrapPartition and KafkaConfigBackingStore in Apache Kafka.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

from msgspec import Meta, Struct
from msgspec import field as named
from msgspec.json import Encoder

from aggregator.coordinates import Partition
from aggregator.errors import HoldError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Number, TypedDecoder


class _Source(Struct, frozen=True):
    """The source partition of an offset. Kafka writes the fields in this order and finds the record by their bytes."""

    cluster: str
    partition: Number
    topic: str


class _Copied(Struct, frozen=True):
    offset: Annotated[int, Meta(ge=-1, le=2**63 - 2)]


class _Tasks(Struct, frozen=True):
    count: Annotated[int, Meta(ge=0, le=10_000)] = named(name="task-count")


_KEYS = TypedDecoder(tuple[str, _Source])
_VALUES = TypedDecoder(_Copied)
_ENCODER = Encoder()
_TASKS = TypedDecoder(_Tasks)
_TASKS_KEY = "tasks-fencing-"


class OffsetRecord(NamedTuple):
    """A record of the offsets topic.

    Attributes:
        key: The key as written; Connect finds its record by these bytes alone.
        value: The offset; None forgets it.
        partition: Partition of the predecessor; None: the key decides, as Java's producer does.
    """

    key: str
    value: bytes | None
    partition: int | None = None


@dataclass(frozen=True, slots=True)
class SourceOffsets:
    """The offsets that a connector has reached in one source cluster.

    Attributes:
        positions: The next offset of each source partition that has one.
        records: Records as written, forgotten ones too.
        others: Connectors and clusters that the topic speaks of beside it.
    """

    positions: Mapping[Partition, int] = field(default_factory=dict)
    records: Mapping[Partition, OffsetRecord] = field(default_factory=dict)
    others: tuple[tuple[str, str], ...] = ()


def source_offsets(records: Iterable[LogRecord], connector: str, cluster: str) -> SourceOffsets:
    """How far a source connector has copied, from the records of Connect's offsets topic.

    Args:
        records: Records of all partitions of the topic, in log order within each.
        connector: The connector's name.
        cluster: The connector's alias of the source cluster.

    Raises:
        HoldError: a record of this connector and cluster holds no offset.
    """
    last: dict[Partition, dict[tuple[str, int], LogRecord]] = {}
    others: set[tuple[str, str]] = set()
    for record in records:
        try:
            name, source = _KEYS.decode(record.key.encode(errors="replace"))
        except CorruptRecord:
            continue  # a record of another kind of connector, whose partitions have other fields
        if (name, source.cluster) == (connector, cluster):
            last.setdefault((source.topic, source.partition), {})[record.key, record.partition] = record
        else:
            others.add((name, source.cluster))
    found = {at: _one(at, list(written.values())) for at, written in last.items()}
    copied = {at: _copied(record, at) for at, record in found.items()}
    return SourceOffsets(
        {at: offset + 1 for at, offset in copied.items() if offset is not None},
        {at: OffsetRecord(record.key, record.value, record.partition) for at, record in found.items()},
        tuple(sorted(others)),
    )


def _one(tp: Partition, written: list[LogRecord]) -> LogRecord:
    """The record that counts, of those whose keys differ by their bytes or that lie in several partitions.

    Raises:
        HoldError: more than one holds an offset: which of them Connect takes, nobody can say.
    """
    living = [record for record in written if not _is_forgotten(record)]
    if len(living) > 1:
        places = ", ".join(f"{one.offset} of partition {one.partition}" for one in living)
        raise HoldError(
            f"Connect keeps several offsets of {tp[0]}-{tp[1]}, at {places}",
            hint="write a record without a value for all but MirrorMaker 2's own, under the same key and partition",
        )
    return (living or written)[-1]


def _is_forgotten(record: LogRecord) -> bool:
    return record.value in (None, b"null")


def _copied(record: LogRecord, tp: Partition) -> int | None:
    """The last copied offset; None where it was forgotten, by a tombstone or by `null`."""
    if _is_forgotten(record):
        return None
    try:
        return _VALUES.decode(record.value).offset
    except CorruptRecord:
        raise HoldError(
            f"what Connect keeps of {tp[0]}-{tp[1]}, at {record.offset} of partition {record.partition}, is no offset",
            hint='look at that record; MirrorMaker 2 itself writes {"offset": n}',
        ) from None


def offset_record(known: SourceOffsets, connector: str, cluster: str, tp: Partition, position: int) -> OffsetRecord:
    """The record from which the connector goes on at a position; the same bytes and place as the one before it.

    Args:
        known: Present contents of the topic.
        connector: Name of the connector.
        cluster: The connector's alias of the source.
        tp: The source partition.
        position: The next offset; 0 forgets what was copied, so that it begins at the beginning.
    """
    before = known.records.get(tp)
    key = before.key if before else _ENCODER.encode((connector, _Source(cluster, tp[1], tp[0]))).decode()
    value = _ENCODER.encode(_Copied(position - 1)) if position else None
    return OffsetRecord(key, value, before.partition if before else None)


def task_count(records: Iterable[LogRecord], connector: str) -> int:
    """The last written number of the connector's tasks that ran exactly once; 0 if none ever did.

    Args:
        records: Records of the configs topic, in log order.
        connector: Name of the connector.

    Raises:
        HoldError: its record holds no number.
    """
    count = 0
    for record in records:
        if record.key == f"{_TASKS_KEY}{connector}":
            count = 0 if record.value is None else _counted(record)
    return count


def _counted(record: LogRecord) -> int:
    try:
        return _TASKS.decode(record.value).count
    except CorruptRecord:
        raise HoldError(
            f"{record.key} (offset {record.offset}) in Connect's configs topic holds no number of tasks",
            hint="name the topic of MirrorMaker 2's own workers with `configs_topic` in the rule's `start`",
        ) from None
