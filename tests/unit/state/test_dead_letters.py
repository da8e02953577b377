"""Whose letter a record of the dead-letter topic is, whatever somebody has written there."""

import json

import pytest

from aggregator.coordinates import EdgePartition, Origin
from aggregator.state.dead_letters import encode_resolution, letter_key, letter_origin

SOURCE = EdgePartition("eu", "orders", 1)
LETTER = json.dumps({"v": 1, "edge": "eu", "topic": "orders", "reason": "too_large"}).encode()
KEY = letter_key(SOURCE, 7, 2).encode()


def test_a_letter_names_its_record():
    """By its key."""
    assert letter_origin("hub", KEY, LETTER) == Origin("hub", "eu", "orders", 1, 7, 2)


def test_a_resolution_is_nobodys_letter():
    """It has the letter's key."""
    key, value = encode_resolution(SOURCE, 7, 2, "b1", "delivered")
    assert letter_origin("hub", key, value) is None


@pytest.mark.parametrize(
    "key", [None, b"", b"\xff\xfe", b"a/b/c", "eu/orders/\u00b2/7/2".encode(), b"eu/orders/-1/7/2"]
)
def test_no_key_of_ours_names_no_record(key):
    """Settling reads what anybody has written there."""
    assert letter_origin("hub", key, LETTER) is None


@pytest.mark.parametrize(
    "value", [None, b"", b"5", b"[]", b"\xff", b"{", b"[" * 100_000, b'{"reason":"never heard of"}']
)
def test_no_letter_of_ours_names_no_record(value):
    """Neither does what is not JSON, or JSON without end."""
    assert letter_origin("hub", KEY, value) is None
