"""`bucket`, `round`, `truncate`."""

import math
import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.privacy.operators import number
from tests.unit.privacy.operators.single import (
    BYTES,
    DECIMAL,
    DOUBLE,
    FIXED_DECIMAL,
    FLOAT,
    INT,
    LONG,
    TEXT,
    one,
    rule,
)


def _double(value):
    return struct.pack("<d", value)


@pytest.mark.parametrize(
    ("parameters", "leaf", "value", "label"),
    [
        ({"size": 10}, INT, 37, "[30,40)"),
        ({"size": 10}, INT, 40, "[40,50)"),
        ({"size": 10}, INT, -1, "[-10,0)"),
        ({"size": 0.1}, DOUBLE, _double(0.25), "[0.2,0.3)"),
        ({"size": 2.5}, DECIMAL, (1234).to_bytes(2, "big"), "[10,12.5)"),
        ({"size": 10}, DOUBLE, _double(math.nan), "[REDACTED]"),
        ({"size": 10}, DOUBLE, _double(math.inf), "[REDACTED]"),
        ({"ranges": [18, 65]}, INT, 17, "<18"),
        ({"ranges": [18, 65]}, INT, 18, "[18,65)"),
        ({"ranges": [18, 65]}, LONG, 2**63 - 1, ">=65"),
        ({"ranges": [0]}, INT, -5, "<0"),
        ({"ranges": [-1.5, 1e3]}, FLOAT, struct.pack("<f", 999.5), "[-1.5,1000)"),
    ],
)
def test_buckets(parameters, leaf, value, label):
    """Half-open intervals, open-ended ones outside of the bounds, and what is no number is redacted."""
    assert one(rule("bucket", **parameters), value, leaf) == label


@given(st.integers(-(2**63), 2**63 - 1), st.sampled_from([1, 7, 0.1, 2.5, 1000]))
def test_a_bucket_holds_its_number(value, size):
    """Every number lies in the interval that it is told as."""
    low, high = one(rule("bucket", size=size), value, LONG)[1:-1].split(",")
    assert Fraction(low) <= value < Fraction(high)
    assert Fraction(high) - Fraction(low) == Fraction(str(size))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_finite_number_has_a_bucket(value):
    """However large or small."""
    low, high = one(rule("bucket", size=0.5), _double(value), DOUBLE)[1:-1].split(",")
    assert Fraction(low) <= Fraction(value) < Fraction(high)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"size": 0}, {"size": -1}, {"size": 1, "ranges": [1]}, {"ranges": []}, {"ranges": [2, 1]},
     {"ranges": [1, 1]}, {"size": math.nan}, {"ranges": [math.inf]}],
)  # fmt: skip
def test_buckets_are_told_in_one_way(parameters):
    """A size or bounds in ascending order, not both, and numbers."""
    with pytest.raises(ValidationError):
        rule("bucket", **parameters)


@pytest.mark.parametrize(
    ("digits", "leaf", "value", "rounded"),
    [
        (-1, INT, 15, 20),
        (-1, INT, 25, 20),
        (-2, LONG, -151, -200),
        (-9, INT, 2**31 - 1, 2_000_000_000),
        (-1, INT, 2**31 - 1, 2_147_483_640),
        (-18, LONG, -(2**63), -9_000_000_000_000_000_000),
        (2, DOUBLE, _double(3.14159), _double(3.14)),
        (-2, DOUBLE, _double(-12.0), _double(0.0)),
        (1, FLOAT, struct.pack("<f", 0.25), struct.pack("<f", 0.2)),
        (1, DOUBLE, struct.pack("<Q", 0x7FF8_0000_DEAD_BEEF), _double(math.nan)),
        (1, DECIMAL, (1234).to_bytes(2, "big"), (1230).to_bytes(2, "big")),
        (0, DECIMAL, (-1).to_bytes(1, "big", signed=True), b"\0"),
        (-2, DECIMAL, (999_999).to_bytes(3, "big"), (990_000).to_bytes(3, "big")),
        (0, FIXED_DECIMAL, (1250).to_bytes(3, "big"), (1200).to_bytes(3, "big")),
        (0, FIXED_DECIMAL, b"\x7f\xff\xff", (8_388_600).to_bytes(3, "big")),
    ],
)
def test_rounding(digits, leaf, value, rounded):
    """Half to even within the type; where rounding up would leave it, towards zero; a NaN carries nothing."""
    assert one(rule("round", digits=digits), value, leaf) == rounded


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-12, -1))
def test_rounded_whole_numbers(value, digits):
    """A multiple of the step, next to the number, in the type; rounding twice is rounding once."""
    made = rule("round", digits=digits)
    rounded = one(made, value, INT)
    assert rounded % 10**-digits == 0
    assert abs(rounded - value) < 10**-digits
    assert -(2**31) <= rounded < 2**31
    assert one(made, rounded, INT) == rounded


@given(st.floats(allow_nan=False), st.integers(-5, 10))
def test_rounded_floating_point(value, digits):
    """Rounding twice is rounding once."""
    made = rule("round", digits=digits)
    once = one(made, _double(value), DOUBLE)
    assert one(made, once, DOUBLE) == once


@given(st.integers(-(2**40), 2**40), st.integers(-8, 1))
def test_rounded_decimals(value, digits):
    """Within precision where the value was, and never further off than a step."""
    raw = value.to_bytes(6, "big", signed=True)
    rounded = number.exact(DECIMAL, one(rule("round", digits=digits), raw, DECIMAL))
    assert abs(rounded - Fraction(value, 100)) < Fraction(10) ** -digits
    assert abs(value) >= 10**6 or abs(rounded * 100) < 10**6


@pytest.mark.parametrize(
    ("length", "leaf", "value", "left"),
    [
        (2, TEXT, "Jane", "Ja"),
        (9, TEXT, "Jane", "Jane"),
        (0, TEXT, "Jane", ""),
        (1, TEXT, "👩\u200d👩\u200d👧x", "👩\u200d👩\u200d👧"),
        (2, TEXT, "Zo\u0301e", "Zo\u0301"),
        (2, BYTES, b"\0\1\2", b"\0\1"),
    ],
)
def test_truncating(length, leaf, value, left):
    """By grapheme, bytes by byte."""
    assert one(rule("truncate", length=length), value, leaf) == left
