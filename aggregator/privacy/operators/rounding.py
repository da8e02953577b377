"""`round` and `truncate`: a number with fewer digits, a text or bytes with fewer signs; the type stays.

Invariant: a type that the operator can not change (whole numbers with decimals asked for) is not taken. Doing it twice
changes nothing more.
"""

from collections.abc import Callable, Sequence

from aggregator.privacy.graphemes import grapheme_starts
from aggregator.privacy.operators import number
from aggregator.privacy.plan.leaf import Leaf, Value
from aggregator.privacy.policy.rules import Truncate
from aggregator.schema.avro import Kind


def rounded_result(digits: int, leaf: Leaf) -> Leaf | None:
    """The same type."""
    return leaf if number.is_number(leaf) and number.loses_decimals(leaf, digits) else None


def build_rounded(digits: int, leaf: Leaf) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Everything with so many decimals."""
    return lambda values: [number.rounded(leaf, value, digits) for value in values]


def truncated_result(leaf: Leaf) -> Leaf | None:
    """Text, or bytes."""
    if leaf.kind is Kind.BYTES and leaf.logical is None:
        return leaf
    return Leaf(Kind.STRING) if leaf.kind in (Kind.STRING, Kind.ENUM) else None


def build_truncated(rule: Truncate) -> Callable[[Sequence[Value]], list[Value | None]]:
    """The beginning of everything."""
    return lambda values: [_beginning(value, rule.length) for value in values]


def _beginning(value: Value, length: int) -> Value:
    if isinstance(value, bytes):
        return value[:length]
    text = str(value)
    starts = grapheme_starts(text, length + 1)
    return text[: starts[length]] if len(starts) > length else text
