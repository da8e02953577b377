"""Reads whole, floating point and decimal numbers exactly, and rounds them within their type.

Invariant: a rounded number is a value of the same type. If rounding up would leave the type's range, the number is
rounded towards zero. A NaN has room for data in its unused bits, so it becomes the one plain NaN.
"""

import math
import struct
from collections.abc import Callable, Sequence
from fractions import Fraction

from aggregator.budgets import NUMBER_BYTES
from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Value
from aggregator.schema.avro import Kind

_FLOATS = {Kind.FLOAT: struct.Struct("<f"), Kind.DOUBLE: struct.Struct("<d")}
_BITS = {Kind.INT: 32, Kind.LONG: 64}


def is_floating(leaf: Leaf) -> bool:
    """Whether values are floating point numbers."""
    return leaf.kind in _FLOATS


def is_number(leaf: Leaf) -> bool:
    """Whether values are numbers; dates and times are not."""
    if leaf.logical is not None:
        return leaf.logical.name == "decimal"
    return leaf.kind in INTEGERS or leaf.kind in _FLOATS


def floating(leaf: Leaf, value: Value) -> float:
    """Decode the number of a floating point leaf."""
    number: float = _FLOATS[leaf.kind].unpack(value)[0]  # type: ignore[arg-type] # bytes, by the leaf's kind
    return number


def packed(leaf: Leaf, number: float) -> bytes:
    """Encode a number as the bytes of a floating point leaf.

    Raises:
        OverflowError: the number is too large for four bytes.
    """
    return _FLOATS[leaf.kind].pack(math.nan if math.isnan(number) else number)


def exact(leaf: Leaf, value: Value) -> Fraction | None:
    """The number that a value stands for; None if it is infinite, or none."""
    if isinstance(value, int):
        return Fraction(value)
    if leaf.kind in _FLOATS:
        number = floating(leaf, value)
        return Fraction(number) if math.isfinite(number) else None
    return Fraction(_unscaled(value), 10 ** _scale(leaf))


def loses_decimals(leaf: Leaf, digits: int) -> bool:
    """Whether rounding to so many decimals can change a value of this type at all."""
    return leaf.kind in _FLOATS or digits < _scale(leaf)


def rounded_type(leaf: Leaf, digits: int) -> Leaf | None:
    """The type of the leaf if rounding can change a value of it, else None."""
    return leaf if is_number(leaf) and loses_decimals(leaf, digits) else None


def rounding(leaf: Leaf, digits: int) -> Callable[[Sequence[Value]], list[Value | None]]:
    """Build a function that rounds values to a number of decimals."""
    return lambda values: [rounded(leaf, value, digits) for value in values]


def rounded(leaf: Leaf, value: Value, digits: int) -> Value:
    """A value of the same type with so many decimals."""
    if isinstance(value, int):
        limit = 1 << (_BITS[leaf.kind] - 1)
        return _rounded(value, -digits, -limit, limit - 1)
    if leaf.kind in _FLOATS:
        number = floating(leaf, value)
        return packed(leaf, round(number, digits) + 0.0)  # no negative zero: it would tell the sign
    most = 10**leaf.logical.precision - 1 if leaf.logical is not None and leaf.logical.precision else None
    if leaf.kind is Kind.FIXED:
        room = (1 << (8 * leaf.size - 1)) - 1
        most = room if most is None else min(most, room)
    number_ = _unscaled(value)
    if most is None or abs(number_) > most:  # not within its own type: nothing to hold it to but itself
        most = abs(number_)
    made = _rounded(number_, _scale(leaf) - digits, -most, most)
    size = leaf.size or (made if made >= 0 else ~made).bit_length() // 8 + 1
    return made.to_bytes(size, "big", signed=True)


def _rounded(number: int, places: int, least: int, most: int) -> int:
    if places <= 0:
        return number
    made = round(number, -places)
    if least <= made <= most:
        return made
    step: int = 10**places
    return number // step * step if number >= 0 else -(-number // step * step)


def _unscaled(value: Value) -> int:
    """The unscaled integer of a decimal.

    Raises:
        ValueError: it has more bytes than its budget.
    """
    raw: bytes = value  # type: ignore[assignment] # bytes, by the leaf's kind
    if len(raw) > NUMBER_BYTES.limit:
        raise ValueError("a decimal has more bytes than its budget")
    return int.from_bytes(raw, "big", signed=True)


def _scale(leaf: Leaf) -> int:
    return (leaf.logical.scale or 0) if leaf.logical is not None else 0
