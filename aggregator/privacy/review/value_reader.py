"""Decodes a value of any format into plain JSON, for people.

Invariant: it reads the input or the output of a strip, and decides nothing.
"""

import json
from typing import Any, Self

from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.schema.plain_json import decoded
from aggregator.schema.registry import Registry
from aggregator.schema.wire import split


class EscapedBytes(str):
    """Bytes that are no UTF-8, as escapes."""

    __slots__ = ("size",)
    size: int

    def __new__(cls, raw: bytes) -> Self:
        """Make the text of these bytes; `size` is their number."""
        made = super().__new__(cls, raw, "utf-8", "backslashreplace")
        made.size = len(raw)
        return made


def text_of(raw: bytes) -> str:
    """Bytes as text; what is no UTF-8 as escapes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return EscapedBytes(raw)


def read_value(value: bytes, value_format: ValueFormat, registry: Registry) -> Any:
    """Decode a value into plain JSON for people.

    Args:
        value: The bytes of the value, as they were written.
        value_format: The format in which it was written.
        registry: The registry that knows the schema of the value.

    Raises:
        DeadLetterError: the registry does not know its schema, or it names none.
        ValueError, IndexError, EOFError, KeyError, OverflowError, MemoryError, RecursionError: it is no such value.
    """
    if value_format is ValueFormat.AVRO:
        schema_id, body = split(value)
        return decoded(registry.schema(schema_id), body)
    return json.loads(value) if value_format.has_fields else text_of(value)
