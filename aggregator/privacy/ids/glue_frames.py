"""Converts records that AWS Glue's serialisers framed to wire format 0, in which a number names the schema.

Invariant: later steps see wire format 0 only, with numbers of this process. Content without a frame of Glue's is
replaced by bytes that are refused, so that its first bytes are never taken for a schema id. For a value, the reason is
reported.
"""

from dataclasses import replace

from aggregator.budgets import max_output_bytes
from aggregator.errors import DeadLetterError, HoldError
from aggregator.privacy.batch.strip import Batch, Rejection
from aggregator.privacy.ids.header_schema_ids import REFUSED
from aggregator.schema.registry import Registry
from aggregator.schema.wire import (
    APICURIO_KEY_HEADERS,
    GLUE_BYTES,
    GLUE_MAGIC,
    HEADER_BYTES,
    KEY_ID_HEADER,
    MAGIC,
    frame,
    glue_split,
)

_KEY_HEADERS = APICURIO_KEY_HEADERS | {KEY_ID_HEADER}


def glue_to_confluent(
    batch: Batch, registry: Registry, *, keys: bool, values: bool
) -> tuple[Batch, dict[int, Rejection]]:
    """The batch without Glue's frames, and the places of values that had none.

    Args:
        batch: As it was read.
        registry: The edge's; gives schema versions their numbers.
        keys: Whether keys may be Avro.
        values: The same of values.

    Raises:
        HoldError: too much would be made of all of them; of one alone a frame's own budget is the bound.
    """
    rejected: dict[int, Rejection] = {}
    contents = [one for column in (batch.values, batch.keys) for one in column if one is not None]
    most, made = max_output_bytes(sum(map(len, contents))), 0

    def bounded(content: bytes) -> bytes:
        nonlocal made
        made += len(content)
        if made > most and len(batch.values) > 1:
            raise HoldError(
                f"{len(batch.values)} records of AWS Glue inflate to more than {most} bytes",
                hint="their halves are tried",
            )
        return content

    def value(place: int, content: bytes) -> bytes:
        try:
            return bounded(_with_number(content, registry))
        except DeadLetterError as error:
            rejected[place] = Rejection(error.reason)
            return REFUSED

    found = [None if one is None else value(at, one) for at, one in enumerate(batch.values)] if values else batch.values
    if not keys:
        return replace(batch, values=found), rejected
    named = [any(name in _KEY_HEADERS for name, _ in pairs or ()) for pairs in batch.headers]
    keyed = zip(batch.keys, named, strict=True)
    keys_found = [None if one is None else bounded(_key(one, registry, named=at)) for one, at in keyed]
    return replace(batch, keys=keys_found, values=found), rejected


def _key(content: bytes, registry: Registry, *, named: bool) -> bytes:
    """A key may also be text; in Confluent's frame, or with its schema in a header, it would be another registry's."""
    if content[:1] == GLUE_MAGIC and len(content) >= GLUE_BYTES:
        try:
            return _with_number(content, registry)
        except DeadLetterError:
            return REFUSED
    is_foreign = named or (content[:1] == MAGIC and len(content) >= HEADER_BYTES)
    return REFUSED if is_foreign else content


def _with_number(content: bytes, registry: Registry) -> bytes:
    guid, body = glue_split(content)
    number = registry.number(guid)
    return REFUSED if number is None else frame(number, body)
