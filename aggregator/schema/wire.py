"""Confluent's wire formats. Version 0: a zero byte, the schema id as four bytes big-endian, the Avro body. Version 1:
the body alone, and a header with a one and the schema's GUID as sixteen bytes (or with version 0's five).

Invariant: `split` and `frame` are each other's inverse. Refuses every value and every header that does not begin so.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

import struct
from uuid import UUID

from aggregator.errors import DeadLetterError, Reason

HEADER_BYTES = 5
MAGIC = b"\0"
# Where a serialiser puts the id of version 1; a header counts before the value's first bytes.
KEY_ID_HEADER = "__key_schema_id"
VALUE_ID_HEADER = "__value_schema_id"
_GUID_MAGIC = b"\1"
_GUID_BYTES = 16
_HEADER = struct.Struct(">BI")
MAXIMUM_ID = 2**32 - 1


def split(value: bytes) -> tuple[int, bytes]:
    """Take a framed value apart.

    Returns:
        The schema id, and the Avro body.

    Raises:
        DeadLetterError: WRONG_MAGIC, when the value is shorter than the header or begins with another byte.
    """
    if len(value) < HEADER_BYTES or value[:1] != MAGIC:
        raise DeadLetterError(
            Reason.WRONG_MAGIC,
            f"a value of {len(value)} bytes does not begin with wire format 0",
            hint="produce with a Confluent Avro serialiser",
        )
    return _HEADER.unpack_from(value)[1], value[HEADER_BYTES:]


def frame(schema_id: int, body: bytes) -> bytes:
    """Put the header before an Avro body."""
    return _HEADER.pack(0, schema_id) + body


def header_id(value: bytes | None) -> int | UUID:
    """The schema that a header names: by id, or by GUID.

    Raises:
        DeadLetterError: WRONG_MAGIC, when it is neither.
    """
    if value is not None and len(value) == HEADER_BYTES and value[:1] == MAGIC:
        return split(value)[0]
    if value is not None and len(value) == 1 + _GUID_BYTES and value[:1] == _GUID_MAGIC:
        return UUID(bytes=value[1:])
    raise DeadLetterError(
        Reason.WRONG_MAGIC, "a header names a schema in no known form", hint="produce with a Confluent Avro serialiser"
    )
