"""Converts records that name their schema in a header to wire format 0, in which the value itself names it.

Invariant: later steps see wire format 0 only. Three kinds of content are replaced by bytes that are refused, so that
their first bytes are never taken for another schema's id or for text:
- content whose header cannot be read, or names a GUID that the registry cannot know;
- content that itself names a number which only a GUID can have;
- a bare key whose schema a header of Apicurio's names.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from aggregator.errors import DeadLetterError
from aggregator.privacy.batch.strip import Batch
from aggregator.schema.registry import Registry
from aggregator.schema.wire import (
    APICURIO_KEY_HEADERS,
    HEADER_BYTES,
    KEY_ID_HEADER,
    MAGIC,
    VALUE_ID_HEADER,
    frame,
    header_id,
    split,
)

ID_HEADERS = frozenset((KEY_ID_HEADER, VALUE_ID_HEADER))
# All headers that may name a schema; Apicurio's headers are recognised but not resolved.
NAMING_HEADERS = ID_HEADERS | APICURIO_KEY_HEADERS
# Content that is neither wire format 0 nor UTF-8 text, so that it is always refused.
REFUSED = b"\x80"


def frame_from_headers(batch: Batch, registry: Registry, *, keys: bool, values: bool = True) -> Batch:
    """The batch in which no header names a schema any more; only for one that has some of `NAMING_HEADERS`.

    Args:
        batch: As it was read.
        registry: The edge's; gives GUIDs their numbers.
        keys: Whether keys may be Avro; else their headers mean nothing.
        values: The same of values.
    """
    by_name = [dict(reversed(pairs)) if pairs else {} for pairs in batch.headers]  # the first of a name counts
    return replace(
        batch,
        keys=_framed(batch.keys, by_name, KEY_ID_HEADER, registry, APICURIO_KEY_HEADERS) if keys else batch.keys,
        values=_framed(batch.values, by_name, VALUE_ID_HEADER, registry) if values else batch.values,
    )


def _framed(
    contents: Sequence[bytes | None],
    by_name: Sequence[Mapping[str, bytes | None]],
    name: str,
    registry: Registry,
    foreign: frozenset[str] = frozenset(),
) -> list[bytes | None]:
    def named(content: bytes, headers: Mapping[str, bytes | None]) -> bytes:
        if name in headers:
            return _with_id(content, headers[name], registry)
        return _own(content, registry, is_avro=not foreign.isdisjoint(headers))

    pairs = zip(contents, by_name, strict=True)
    return [None if content is None else named(content, headers) for content, headers in pairs]


def _own(content: bytes, registry: Registry, *, is_avro: bool) -> bytes:
    """What its first bytes name, unless that is a number of this process; what is Avro and names nothing is refused."""
    is_framed = content[:1] == MAGIC and len(content) >= HEADER_BYTES
    is_refused = split(content)[0] >= registry.ids_end if is_framed else is_avro
    return REFUSED if is_refused else content


def _with_id(content: bytes, header: bytes | None, registry: Registry) -> bytes:
    try:
        named = header_id(header)
    except DeadLetterError:
        return REFUSED
    if isinstance(named, int):
        return frame(named, content) if named < registry.ids_end else REFUSED
    number = registry.number(named)
    return REFUSED if number is None else frame(number, content)
