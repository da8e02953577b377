"""`truncate`: a text keeps its first graphemes, bytes keep their first bytes, and the type stays.

Invariant: truncating twice changes nothing more.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.fields.leaf import Leaf, Value
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass, clear_if
from aggregator.privacy.operators.graphemes import grapheme_starts
from aggregator.privacy.operators.parameters import Justified
from aggregator.schema.avro import Kind


class Truncate(Justified):
    """A text keeps its first graphemes, bytes their first bytes."""

    operator: Literal["truncate"] = "truncate"
    length: Annotated[int, Field(ge=0, le=100_000)]


def privacy_class(rule: Truncate) -> PrivacyClass:
    """The privacy class: a text that is short enough is left in clear."""
    return clear_if(rule.length > 0)


def result(_rule: Truncate, leaf: Leaf) -> Leaf | None:
    """String for a text or an enum, and bytes for bytes; None for other types."""
    if leaf.kind is Kind.BYTES and leaf.logical is None:
        return leaf
    return Leaf(Kind.STRING) if leaf.kind in (Kind.STRING, Kind.ENUM) else None


def build(rule: Truncate, *_: object) -> Operator:
    """Build the operator that keeps the beginning of every value."""
    return lambda values: [_beginning(value, rule.length) for value in values]


def _beginning(value: Value, length: int) -> Value:
    if isinstance(value, bytes):
        return value[:length]
    text = str(value)
    starts = grapheme_starts(text, length + 1)
    return text[: starts[length]] if len(starts) > length else text


TRUNCATE = Descriptor(
    parameters=Truncate,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=result,
    build=build,
    is_coarser=lambda rule, other: rule.length <= other.length,
)
