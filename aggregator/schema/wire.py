"""Confluent's wire format, version 0: a zero byte, the schema id as four bytes big-endian, the Avro body.

Invariant: `split` and `frame` are each other's inverse. Refuses every value that does not begin so.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

import struct

from aggregator.errors import DeadLetterError, Reason

HEADER_BYTES = 5
MAGIC = b"\0"
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
