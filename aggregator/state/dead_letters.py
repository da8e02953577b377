"""A dead letter names a record that could not be delivered, and why; a resolution says that it was handled later.

Invariant: each record has one letter, by its key, and the newest record under that key counts. A resolution commits in
the transaction of the record's copy at central. An unresolved letter therefore stands for a record that central does
not have, provided that the hub wrote the letter. The ledger proves that, because it counts letters in the same
transactions. A resolution counts if the ledger of its backfill has passed the record. A letter never contains a
payload.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from msgspec import Struct

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Copy, EdgePartition, Origin, Position, SchemaName
from aggregator.counted import counted
from aggregator.errors import Failed, Reason
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.committed_reader import read_committed
from aggregator.kafka.readers.log import decided_ranges
from aggregator.kafka.readers.typed_decoder import (
    Count,
    Damaged,
    Difference,
    Later,
    Number,
    TypedDecoder,
    key_text,
    unreadable,
)
from aggregator.state.ledger import BackfillPositions, LedgerRecord
from aggregator.state.ledger_log import ledger_log
from aggregator.state.names import HubNames

log = logging.getLogger(__name__)
VERSION = 1
DELIVERED = "delivered"
SUPPRESSED = "suppressed"
_KEY_PARTS = 5
_PIECE_BYTES = 8 * 1024 * 1024
LetterCount = Callable[["Letter", str], None]


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
    return len(parts) == _KEY_PARTS and all(parts[:2]) and all(part.isdecimal() for part in parts[2:])


def letter_copy(hub: str, key: bytes | str | None, value: bytes | None) -> Copy | None:
    """The record that a letter or a resolution is about, and the backfill that wrote it; None for anything else."""
    text = key_text(key) if isinstance(key, bytes) else key or ""
    try:
        body = _DECODER.decode(value)
    except Damaged:
        return None
    if not is_key(text) or (body.reason is None and body.resolved_by is None):
        return None
    try:
        origin = Origin.decode(f"{hub}/{text}".encode())
    except ValueError:  # a number that is too long
        return None
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
    """Return key and value of a dead letter.

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
        Damaged: it is neither.
    """
    body = _DECODER.decode(value)
    if body.resolved_by is not None:
        return None
    if body.reason is None:
        raise Damaged("of no reason")
    return body.edge, body.topic, body.reason.value


def _counts_nothing(_letter: Letter, _backfill: str) -> None:
    pass


def read_letters(
    cluster: ClusterConfig, names: HubNames, *, apart: bool = False, count: LetterCount = _counts_nothing
) -> Iterator[Letter]:
    """Every letter as its newest record has it, the topic read to its end; none before the hub's first run.

    What the hub did not write is passed over with a warning: it explains nothing, and hides no letter.

    Args:
        cluster: Central.
        names: The hub's.
        apart: The letters of backfills that do not write into a live topic. A record has one for each central topic
            that it did not get into: one for each generation.
        count: Takes each letter as it was written, and the backfill that wrote it, if one did.

    Raises:
        Failed: a later version wrote a letter, or a transaction at central stays open.
        Unreachable: central does not answer.
    """
    foreign: list[int] = []
    late = names.backfills()
    topic = late.dead_letters if apart else names.dead_letters

    @cache
    def positions() -> BackfillPositions:
        """Read where backfills stand: behind the letters, so that no resolution among them is newer."""
        return BackfillPositions(ledger_log(cluster, late), late.ledger)

    def proven(resolution: Letter) -> bool:
        return is_passed(resolution, positions().of(resolution.source, resolution.resolved_by))

    records = _records(cluster, topic)
    yield from fold_letters(records, topic, apart=apart, foreign=foreign.append, count=count, proven=proven)
    if foreign:
        told, first = counted(len(foreign), "record"), min(foreign)
        log.warning("%s: %s passed over, none of ours: offset %d first; who else writes it?", topic, told, first)


def is_passed(letter: Letter, entry: LedgerRecord | None) -> bool:
    """Whether a flow has passed the record of a letter, which commits with the letter, or with its resolution.

    Args:
        letter: Of the flow, or a resolution of one.
        entry: The ledger record of the flow, or of the backfill that the resolution names; None: it has written none.
    """
    return entry is not None and Position(letter.incarnation, letter.offset) < entry.position


def fold_letters(
    records: Iterable[tuple[int, bytes, bytes | None]],
    topic: str,
    *,
    apart: bool = False,
    foreign: Callable[[int], None] = lambda _offset: None,
    count: LetterCount = _counts_nothing,
    proven: Callable[[Letter], bool] = lambda _resolution: True,
) -> Iterator[Letter]:
    """Every letter as its newest record has it.

    Args:
        records: Offset, key and value, in log order.
        topic: For the sentence about one of a later version.
        apart: As above.
        foreign: Takes the offset of each record that is no letter.
        count: As above.
        proven: Whether a resolution is the hub's; asked when all records are read.

    Raises:
        Failed: a later version wrote one.
    """
    found: dict[tuple[bytes, str], Letter | None] = {}
    resolutions: dict[tuple[bytes, str], list[tuple[int, Letter]]] = {}
    for offset, key, value in records:
        try:
            body = _BODIES.decode(value)
            letter = _letter(body, key_text(key))
        except Later as error:
            what, hint = unreadable(error, "")
            raise Failed(f"{topic} offset {offset} is a dead letter {what}", hint=hint) from None
        except Damaged:
            foreign(offset)
            continue
        at = (key, letter.central if apart else "")
        if letter.resolved_by:
            found.setdefault(at, None)
            resolutions.setdefault(at, []).append((offset, letter))
        else:
            count(letter, body.backfill)
            found[at] = letter
            resolutions.pop(at, None)
    for at, died in found.items():
        word = died
        for offset, resolution in resolutions.get(at, ()):
            if proven(resolution):
                word = _resolved(died, resolution)
            else:
                foreign(offset)
        if word is not None:
            yield word


def _records(cluster: ClusterConfig, topic: str) -> Iterator[tuple[int, bytes, bytes | None]]:
    count = topics.partition_count(cluster, topic)
    ranges = decided_ranges(cluster, [(topic, partition) for partition in range(count)]) if count else {}
    for piece in read_committed(cluster, ranges, max_bytes=_PIECE_BYTES):
        if piece.held is not None:
            raise Failed(f"{topic}: {piece.held.message}", hint=piece.held.hint)
        for offset, key, value in zip(piece.offsets, piece.keys, piece.values, strict=True):
            yield offset, key or b"", value


def _letter(body: _Body, key: str) -> Letter:
    """The letter, or its resolution, of the record that its key names.

    Raises:
        Damaged: it speaks of another record, or gives no reason.
    """
    source = EdgePartition(body.edge, body.topic, body.partition)
    if letter_key(source, body.offset, body.incarnation) != key or not (body.reason or body.resolved_by):
        raise Damaged("of another record, or of no reason")
    return Letter(
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


def _resolved(letter: Letter | None, newer: Letter) -> Letter:
    """A letter with its resolution; the letter itself may have been deleted, if somebody gave the topic a retention."""
    if letter is None:
        return newer
    return replace(letter, resolved_by=newer.resolved_by, outcome=newer.outcome, central=newer.central)
