"""Heartbeats are MirrorMaker 2's, to the byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.edges.heartbeats import Heartbeat, HeartbeatStrip, decode
from aggregator.errors import Reason
from aggregator.privacy.batch.strip import Batch

KEY = bytes.fromhex("000368756200056564676531")
VALUE = bytes.fromhex("00000000018bcfe56800")


def test_the_published_vector():
    """Key hub -> edge1 and value 1700000000000, as Apache Kafka's connect-mirror writes them."""
    beat = Heartbeat("hub", "edge1", 1_700_000_000_000)
    assert (beat.encode_key(), beat.encode_value()) == (KEY, VALUE)
    assert decode(KEY, VALUE) == beat


@given(st.one_of(st.none(), st.binary(max_size=40)), st.one_of(st.none(), st.binary(max_size=12)))
def test_whatever_is_no_heartbeat_is_a_dead_letter(key, value):
    """No bytes pass through a heartbeats topic unless they are exactly a heartbeat."""
    stripped = HeartbeatStrip().strip(Batch([key, KEY], [value, VALUE], [[("x", b"y")], None]))
    assert stripped.values[1] == VALUE
    assert stripped.headers == [[], []]
    if 0 in stripped.rejected:
        assert stripped.rejected[0].reason is Reason.BAD_HEARTBEAT
        assert stripped.keys[0] is None
        assert stripped.values[0] is None
    else:
        assert (stripped.keys[0], stripped.values[0]) == (key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY + b"\0", VALUE),
        (KEY[:-1], VALUE),
        (KEY, b"\0\1" + VALUE[2:]),
        (KEY, VALUE + b"\0"),
        (b"\0\0\0\0", VALUE),
        (KEY, b"\0\0" + b"\xff" * 8),
        (b"\xff\xff" + KEY[2:], VALUE),
        (KEY, None),
    ],
)
def test_a_heartbeat_with_one_thing_wrong(key, value):
    """Trailing bytes, cut keys, other versions, empty aliases, negative times and tombstones are refused."""
    with pytest.raises(ValueError, match=r"."):
        decode(key, value)
