"""A dead letter names a record that could not be delivered, and why; a resolution says that it was handled later.

Invariant: each record has one letter, by its key, and the newest record under that key counts. A resolution commits in
the transaction of the record's copy at central. An unresolved letter therefore stands for a record that central does
not have, provided that the hub wrote it (`letter_log.py`). A letter never contains a payload.
"""

import json
from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from aggregator.coordinates import Copy, EdgePartition, Origin, Position, SchemaName
from aggregator.errors import Reason
from aggregator.kafka.readers.typed_decoder import CorruptRecord, Count, Difference, Number, TypedDecoder, key_text

VERSION = 1
DELIVERED = "delivered"
SUPPRESSED = "suppressed"
_KEY_PARTS = 5


@dataclass(frozen=True, slots=True)
class Letter:
    """Describes one dead letter.

    Attributes:
        source: The edge partition of the record.
        offset: The record's offset at the edge.
        incarnation: The incarnation of the flow when the record was read.
        reason: Code of `errors.Reason`.
        timestamp_ms: The record's own time.
        schema_id: The writer schema, when the record showed one: its id at the edge's registry, or its GUID.
        value_bytes: The size of the record's value.
        resolved_by: Backfill that delivered it, or kept it at the edge by a rule; empty while it is dead.
        outcome: `delivered` or `suppressed`, once it is resolved.
        central: Topic that the record was on its way to.
    """

    source: EdgePartition
    offset: int
    incarnation: int
    reason: str
    timestamp_ms: int
    schema_id: SchemaName | None
    value_bytes: int
    resolved_by: str = ""
    outcome: str = ""
    central: str = ""

    @property
    def key(self) -> str:
        """`edge/topic/partition/offset/incarnation`."""
        return letter_key(self.source, self.offset, self.incarnation)


def letter_key(source: EdgePartition, offset: int, incarnation: int) -> str:
    """Key of a record's letter, and of its resolution."""
    return f"{source}/{offset}/{incarnation}"


def is_key(text: str) -> bool:
    """Whether a text can be the key of a letter."""
    parts = text.split("/")
    return (
        len(parts) == _KEY_PARTS and all(parts[:2]) and all(part.isascii() and part.isdecimal() for part in parts[2:])
    )


def record_of(key: str) -> tuple[EdgePartition, Position] | None:
    """Source and position of the record that a letter's key names; None for any other text."""
    if not is_key(key):
        return None
    edge, topic, *numbers = key.split("/")
    try:
        partition, offset, incarnation = map(int, numbers)
    except ValueError:  # a number that is too long
        return None
    return EdgePartition(edge, topic, partition), Position(incarnation, offset)


def letter_copy(hub: str, key: bytes | str | None, value: bytes | None) -> Copy | None:
    """The record that a letter or a resolution is about, and the backfill that wrote it; None for anything else."""
    text = key_text(key) if isinstance(key, bytes) else key or ""
    try:
        body = _DECODER.decode(value)
    except CorruptRecord:
        return None
    named = record_of(text)
    if named is None or (body.reason is None and body.resolved_by is None):
        return None
    source, position = named
    origin = Origin(hub, *source, position.next_offset, position.incarnation)
    return Copy(origin, body.backfill if body.resolved_by is None else body.resolved_by)


def _coordinates(source: EdgePartition, offset: int, incarnation: int) -> dict[str, Any]:
    return {
        "v": VERSION,
        "edge": source.edge,
        "topic": source.topic,
        "partition": source.partition,
        "offset": offset,
        "incarnation": incarnation,
    }


def encode_letter(letter: Letter, *, key_bytes: int, value_hmac: str | None, backfill: str) -> tuple[str, bytes]:
    """Key and value of a dead letter.

    Args:
        letter: Whose record it is, why it died and where it was going.
        key_bytes: Size of the record's key.
        value_hmac: Keyed hash of the record's value in hex; None in a hub without keys.
        backfill: The backfill that read the record, whose own ledger counts the letter; empty for a live flow.
    """
    body = _coordinates(letter.source, letter.offset, letter.incarnation) | {
        "timestamp_ms": letter.timestamp_ms,
        "reason": letter.reason,
        "schema_id": letter.schema_id,
        "key_bytes": key_bytes,
        "value_bytes": letter.value_bytes,
        "value_hmac": value_hmac,
        "central": letter.central,
    }
    if backfill:
        body["backfill"] = backfill
    return letter.key, json.dumps(body).encode()


def encode_resolution(
    source: EdgePartition, offset: int, incarnation: int, backfill: str, outcome: str, *, central: str = ""
) -> tuple[str, bytes]:
    """Key and value of a letter's resolution."""
    body = _coordinates(source, offset, incarnation) | {
        "resolved_by": backfill,
        "outcome": outcome,
        "central": central,
    }
    return letter_key(source, offset, incarnation), json.dumps(body).encode()


class _Died(Struct):
    edge: str
    topic: str
    reason: Reason | None = None
    resolved_by: str | None = None
    backfill: str = ""


class _Body(Struct):
    edge: str
    topic: str
    partition: Number
    offset: Count
    incarnation: Count
    reason: str = ""
    timestamp_ms: Difference = -1
    schema_id: SchemaName | None = None
    value_bytes: Count = 0
    resolved_by: str | None = None
    outcome: str = ""
    central: str = ""
    backfill: str = ""


_DECODER, _BODIES = TypedDecoder(_Died), TypedDecoder(_Body)


def reason_of(value: bytes | None) -> tuple[str, str, str] | None:
    """Edge, topic and reason of a letter, to count by; None where the record is a resolution.

    Raises:
        CorruptRecord: it is neither.
    """
    body = _DECODER.decode(value)
    if body.resolved_by is not None:
        return None
    if body.reason is None:
        raise CorruptRecord("of no reason")
    return body.edge, body.topic, body.reason.value


def _counts_nothing(_letter: Letter, _backfill: str) -> None:
    pass


def decode_letter(key: bytes, value: bytes | None) -> tuple[Letter, str]:
    """The letter, or the resolution, of the record that a key names, and the backfill that says to have written it.

    Raises:
        UnsupportedVersion: a later version wrote it.
        CorruptRecord: it is neither, or speaks of another record, or gives no reason.
    """
    body = _BODIES.decode(value)
    source = EdgePartition(body.edge, body.topic, body.partition)
    if letter_key(source, body.offset, body.incarnation) != key_text(key) or not (body.reason or body.resolved_by):
        raise CorruptRecord("of another record, or of no reason")
    letter = Letter(
        source,
        body.offset,
        body.incarnation,
        body.reason,
        body.timestamp_ms,
        body.schema_id,
        body.value_bytes,
        body.resolved_by or "",
        body.outcome,
        body.central,
    )
    return letter, body.resolved_by or body.backfill
