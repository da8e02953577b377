"""Converts between the bytes of a record and the values of operators, in both directions.

Raw is text as its bytes, an enum as its number, a number as itself, and every other type as its bytes on the wire.
"""

from collections.abc import Sequence
from typing import Any

from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.schema.avro import Kind

Raw = Any
# On the wire a nullified leaf is the index of the null branch and nothing else.
NULL_INDEX = b"\0"
_INTEGER_LIMITS = {Kind.INT: 2**31, Kind.LONG: 2**63}


def value_of(leaf: Leaf, raw: Raw) -> Value:
    """Convert a value as it was read to the one that an operator sees."""
    if leaf.kind is Kind.STRING:
        return str(raw, "utf-8")
    if leaf.kind is Kind.ENUM:
        return leaf.symbols[raw]
    value: Value = raw
    return value


def raws_of(leaf: Leaf, values: Sequence[Value | None]) -> list[Raw]:
    """The raw values that the encoder needs, for many values.

    Raises:
        TypeError: the operator made a value of another type than it had declared.
    """
    if leaf.kind is Kind.STRING and not leaf.nullable:
        return list(map(str.encode, values))  # type: ignore[arg-type] # a TypeError is the point
    return [raw_of(leaf, value) for value in values]


def raw_of(leaf: Leaf, value: Value | None) -> Raw:
    """Convert an operator's result to the value that the encoder needs.

    Raises:
        TypeError: the operator made a value of another type than it had declared.
    """
    if value is None:
        if leaf.nullable:
            return NULL_INDEX
    elif isinstance(value, int):
        limit = _INTEGER_LIMITS.get(leaf.kind, 0)
        if -limit <= value < limit:
            return value
    elif isinstance(value, str):
        if leaf.kind is Kind.ENUM:
            return leaf.symbols.index(value)
        if leaf.kind is Kind.STRING:
            return value.encode()
    elif leaf.kind is Kind.BOOLEAN:
        return value != b"\0"
    elif leaf.kind not in (Kind.STRING, Kind.ENUM) and leaf.kind not in INTEGERS:
        return value
    raise TypeError(f"an operator's result is no {leaf.kind}")
