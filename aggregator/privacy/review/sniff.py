"""Guesses the format of a sample's values (Avro, JSON, text or bytes): the narrowest one in which all can be read.

Invariant: every value of the sample can be read in this format, so that none of them would be a dead letter. A sample
proves nothing about records outside it.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

from aggregator.errors import DeadLetterError
from aggregator.header_columns import Headers
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.ids.glue_frames import glue_to_confluent
from aggregator.privacy.ids.header_schema_ids import NAMING_HEADERS, frame_from_headers
from aggregator.privacy.json.text import Json, read_json
from aggregator.schema.registry import Registry, UnknownSchema, reportable_id
from aggregator.schema.wire import Framing, split

# Invisible characters that text may contain: ends of lines, tabs, colours of a terminal.
_IN_TEXT = frozenset("\t\n\r\f\v\x1b\ufeff")
# The most ids that a note names; a topic has only a few.
_IDS = 3


class Sniffed(NamedTuple):
    """Describes the format that a sample's values have.

    Attributes:
        value_format: The format of the values; None where there are no values.
        note: What somebody should know of it; empty for nothing.
    """

    value_format: ValueFormat | None
    note: str = ""


Value = tuple[bytes, Headers]


def sniffed(values: Sequence[Value], registry: Registry, *, has_schema: bool) -> Sniffed:
    """Look at a sample of one topic.

    Args:
        values: Each with its headers; no tombstones.
        registry: The edge's.
        has_schema: Whether the registry has a schema under the topic's subject.

    Raises:
        RetryError: the registry does not answer.
    """
    if not values:
        return Sniffed(ValueFormat.AVRO if has_schema else None)
    framed = [one for one in values if schema_of(*one, registry)]
    if framed:
        others = len(values) - len(framed)
        note = f"{others} of {len(values)} sampled values name no schema: dead letters" if others else ""
        return Sniffed(ValueFormat.AVRO, note or ("" if has_schema else "their schema is under another subject"))
    contents = [value for value, _ in values]
    note = "the registry has a schema, but no sampled value names it" if has_schema else ""
    return Sniffed(_unframed(contents), _foreign(contents) or note)


def _foreign(values: Sequence[bytes]) -> str:
    """What to say of values that all begin like Avro under ids of another registry, if they do."""
    try:
        ids = sorted({split(value)[0] for value in values})
    except DeadLetterError:
        return ""
    told = [str(one) for one in ids if reportable_id(one) is not None]  # any other is four bytes of a value
    if not told:
        return ""
    shown = ", ".join(told[:_IDS]) + (", …" if len(ids) > len(told[:_IDS]) else "")
    return f"they begin like Avro, but the registry has no schema id {shown}: is it this edge's registry?"


def _unframed(values: Sequence[bytes]) -> ValueFormat:
    if all(isinstance(json_of(value), dict | list) for value in values):
        return ValueFormat.JSON
    return ValueFormat.TEXT if all(map(_is_text, values)) else ValueFormat.BYTES


def json_of(value: bytes) -> Json:
    """The value as JSON that the strip would read; None for any other."""
    try:
        return read_json(value)
    except Malformed:
        return None


def _is_text(value: bytes) -> bool:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return False
    return text.isprintable() or not any(unicodedata.category(one) == "Cc" for one in {*text} - _IN_TEXT)


def schema_of(value: bytes, headers: Headers, registry: Registry) -> tuple[str, bytes] | None:
    """The schema that a value names, as the strip would find it, and the Avro body; None where it names none.

    Raises:
        RetryError: the registry does not answer.
    """
    batch = named_by_themselves(Batch([None], [value], [headers]), registry, keys=False, values=True)
    try:
        schema_id, body = split(batch.values[0] or b"")
        return registry.schema(schema_id), body
    except (UnknownSchema, DeadLetterError):  # files of some kinds begin like a frame
        return None


def named_by_themselves(batch: Batch, registry: Registry, *, keys: bool, values: bool) -> Batch:
    """One record whose key and value name their schemas by themselves, as the strip would find them.

    Raises:
        RetryError: the registry does not answer.
    """
    if registry.framing is Framing.GLUE:
        return glue_to_confluent(batch, registry, keys=keys, values=values)[0]
    named = {name for name, _ in batch.headers[0] or ()}
    return batch if NAMING_HEADERS.isdisjoint(named) else frame_from_headers(batch, registry, keys=keys, values=values)
