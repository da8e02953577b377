"""`redact`: a value becomes a constant of its type: `[REDACTED]`, 0, false, empty bytes, the zero uuid.

Invariant: the constant never depends on a value. An enum's symbols could be data and are removed with the values.
"""

from typing import Annotated, Literal

from pydantic import StringConstraints

from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Parameters
from aggregator.schema.avro import Kind

REDACTED = "[REDACTED]"
# An enum's symbols are names, which may not contain brackets.
REDACTED_SYMBOL = "REDACTED"
_ZERO_UUID = "00000000-0000-0000-0000-000000000000"
_BITS = {Kind.INT: 32, Kind.LONG: 64}
_RAW_ZERO = {Kind.BOOLEAN: b"\0", Kind.FLOAT: bytes(4), Kind.DOUBLE: bytes(8)}


class Redact(Parameters):
    """The value becomes a constant of its type; `value` where it fits the type."""

    operator: Literal["redact"] = "redact"
    value: Annotated[str, StringConstraints(max_length=1000)] | None = None


def closed_symbols(leaf: Leaf) -> Leaf:
    """An enum that tells nothing; every other type unchanged."""
    return leaf._replace(symbols=(REDACTED_SYMBOL,)) if leaf.kind is Kind.ENUM else leaf


def result(_rule: Redact, leaf: Leaf) -> Leaf:
    """The type of the leaf, without the symbols of an enum."""
    return closed_symbols(leaf)


def constant(rule: Redact, leaf: Leaf) -> Value:
    """The rule's own value where it fits the type, else the type's zero."""
    if leaf.kind in INTEGERS:
        return _integer(rule.value, _BITS[leaf.kind]) if leaf.logical is None else 0
    if leaf.kind is Kind.STRING:
        return _ZERO_UUID if leaf.is_uuid else REDACTED if rule.value is None else rule.value
    if leaf.kind is Kind.ENUM:
        return REDACTED_SYMBOL
    if leaf.kind is Kind.BYTES:
        # A decimal without bytes would not be a number.
        return b"\0" if leaf.logical is not None else (rule.value or "").encode()
    return _RAW_ZERO.get(leaf.kind, bytes(leaf.size))


def _integer(text: str | None, bits: int) -> int:
    if text is None or not text.removeprefix("-").isdecimal() or not text.isascii():
        return 0
    number = int(text)
    return number if -(2 ** (bits - 1)) <= number < 2 ** (bits - 1) else 0


def build(rule: Redact, leaf: Leaf, *_: object) -> Operator:
    """Build the operator that replaces every value by the constant."""
    value = constant(rule, leaf)
    return lambda values: [value] * len(values)


REDACT = Descriptor(
    parameters=Redact, strongest=PrivacyClass.IRREVERSIBLE, result=result, build=build, is_constant=True
)
