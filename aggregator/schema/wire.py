"""Reads and writes the frames that name a record's schema: Confluent's versions 0 and 1, and AWS Glue's.

Version 0 is a zero byte, the schema id as four bytes big-endian, and the Avro body. Version 1 is the body alone, with a
header: a one, and the schema's GUID as sixteen bytes. The header may also hold version 0's five bytes. AWS Glue's frame
is a three, a byte for the compression, the UUID of the schema's version as sixteen bytes, and the body.

Invariant: `split` and `frame` are each other's inverse. A value or a header that begins differently is refused.
Source: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format
"""

import struct
import zlib
from enum import Enum
from uuid import UUID

from aggregator.budgets import INFLATED_TIMES
from aggregator.errors import DeadLetterError, Reason

HEADER_BYTES = 5
MAGIC = b"\0"
# Headers in which a serialiser puts the id of version 1. A header takes precedence over the value's first bytes.
KEY_ID_HEADER = "__key_schema_id"
VALUE_ID_HEADER = "__value_schema_id"
# Headers in which Apicurio's serialisers may name a key's schema; such a key has no frame.
APICURIO_KEY_HEADERS = frozenset(
    f"apicurio.key.{name}" for name in ("globalId", "contentId", "contentHash", "artifactId")
)
_GUID_MAGIC = b"\1"
_GUID_BYTES = 16
_HEADER = struct.Struct(">BI")
MAXIMUM_ID = 2**32 - 1
GLUE_MAGIC = b"\3"
GLUE_BYTES = 1 + 1 + _GUID_BYTES
_GLUE_PLAIN, _GLUE_ZLIB = 0, 5
# A small value may inflate to this size even if it consists of one repeated letter.
_INFLATED_BYTES = 16_384


def split(value: bytes) -> tuple[int, bytes]:
    """Split a framed value into its schema id and its body.

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


class Framing(Enum):
    """Whose frame records have at an edge; central's have Confluent's, always."""

    CONFLUENT = "confluent"
    GLUE = "glue"


def is_glue_framed(value: bytes) -> bool:
    """Whether it begins as AWS Glue's serialiser frames a value; text begins with no such control character."""
    return len(value) >= GLUE_BYTES and value[:1] == GLUE_MAGIC and value[1] in (_GLUE_PLAIN, _GLUE_ZLIB)


def glue_split(value: bytes) -> tuple[UUID, bytes]:
    """Take a value apart that AWS Glue's serialiser framed: a three, the compression, the UUID of the schema's version.

    Returns:
        The schema version's UUID, and the body, inflated where it was deflated.

    Raises:
        DeadLetterError: WRONG_MAGIC, it is no such frame; TOO_LARGE, it inflates to more than it may; UNDECODABLE, what
            is deflated is broken, or goes on behind its end.
    """
    if not is_glue_framed(value):
        raise DeadLetterError(
            Reason.WRONG_MAGIC,
            f"a value of {len(value)} bytes does not begin as AWS Glue's serialiser frames it",
            hint="produce with AWS Glue's Avro serialiser, or name another registry under `schemas`",
        )
    body = value[GLUE_BYTES:]
    return UUID(bytes=value[2:GLUE_BYTES]), body if value[1] == _GLUE_PLAIN else _inflated(body)


def _inflated(body: bytes) -> bytes:
    most = max(INFLATED_TIMES.limit * len(body), _INFLATED_BYTES)
    stream = zlib.decompressobj()
    try:
        inflated = stream.decompress(body, most + 1)
    except zlib.error:
        inflated = b""
    if len(inflated) > most:
        raise DeadLetterError(
            Reason.TOO_LARGE,
            f"a deflated value of {len(body)} bytes inflates to more than {most}",
            hint="produce it without compression",
        )
    if not stream.eof or stream.unused_data:
        raise DeadLetterError(
            Reason.UNDECODABLE, "a deflated value is broken", hint="see what else writes to the topic"
        )
    return inflated
