"""`geo`."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.privacy import operators
from aggregator.privacy.operators.geo import geohash
from tests.unit.privacy.operators.single import DECIMAL, DOUBLE, one, rule


@pytest.mark.parametrize(
    ("latitude", "longitude", "hashed"),
    [(57.64911, 10.40744, "u4pruydqqvj"), (42.605, -5.603, "ezs42"), (37.8324, 112.5584, "ww8p1r4t8"),
     (-90, -180, "000000"), (90, 180, "zzzzzz"), (0, 0, "s0000")],
)  # fmt: skip
def test_geohash_vectors(latitude, longitude, hashed):
    """The published examples, and the corners of the globe."""
    assert geohash(latitude, longitude, len(hashed)) == hashed


@given(st.floats(-90, 90), st.floats(-180, 180), st.integers(1, 9))
def test_a_longer_hash_begins_with_the_shorter(latitude, longitude, length):
    """Each sign only makes the place smaller."""
    assert geohash(latitude, longitude, 10).startswith(geohash(latitude, longitude, length))


@pytest.mark.parametrize(
    ("parameters", "value", "coarse"),
    [
        ({"decimals": 1}, "52.5200, 13.4050", "52.5,13.4"),
        ({"decimals": 0}, "-0.4,0.4", "0,0"),
        ({"geohash": 5}, "42.605,-5.603", "ezs42"),
        ({"geohash": 5}, "Berlin", "[REDACTED]"),
        ({"geohash": 5}, "91,0", "[REDACTED]"),
        ({"decimals": 1}, "0,181", "[REDACTED]"),
        ({"decimals": 1}, "nan,0", "[REDACTED]"),
        ({"decimals": 1}, "52.52", "[REDACTED]"),
        ({"decimals": 1}, "1,2,3", "[REDACTED]"),
    ],
)
def test_texts(parameters, value, coarse):
    """`lat,lon` on the globe; anything else is redacted."""
    assert one(rule("geo", **parameters), value) == coarse


def test_numbers():
    """One coordinate keeps its decimals and its type; it cannot become a hash."""
    assert one(rule("geo", decimals=2), struct.pack("<d", 13.40512), DOUBLE) == struct.pack("<d", 13.41)
    assert operators.result(rule("geo", geohash=5), DOUBLE) is None


def test_a_number_beyond_the_globe_is_redacted():
    """It is no coordinate but perhaps somebody's number, of which rounding would leave all that matters."""
    for number in (4915112345678.0, -180.5, float("inf"), float("nan")):
        assert one(rule("geo", decimals=1), struct.pack("<d", number), DOUBLE) == bytes(8)
    assert one(rule("geo", decimals=1), (18001).to_bytes(3, "big"), DECIMAL) == b"\0"
    assert one(rule("geo", decimals=1), (18000).to_bytes(3, "big"), DECIMAL) == (18000).to_bytes(2, "big")


@pytest.mark.parametrize("parameters", [{}, {"decimals": 1, "geohash": 5}, {"decimals": -1}, {"geohash": 0}])
def test_one_way_to_be_coarse(parameters):
    """Decimals or a hash."""
    with pytest.raises(ValidationError):
        rule("geo", **parameters)
