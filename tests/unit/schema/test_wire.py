"""Confluent's wire format."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.wire import MAXIMUM_ID, frame, split


@given(st.integers(0, MAXIMUM_ID), st.binary())
def test_split_inverts_frame(schema_id, body):
    """What was framed comes apart into the same id and body."""
    assert split(frame(schema_id, body)) == (schema_id, body)


def test_bytes_on_the_wire():
    """A zero byte, then the id big-endian."""
    assert frame(0x01020304, b"x") == b"\x00\x01\x02\x03\x04x"


@pytest.mark.parametrize("value", [b"", b"\0", b"\0\0\0\1", b"\1\0\0\0\1x", b"{}     ", b"\xff" * 9])
def test_everything_else_is_a_dead_letter(value):
    """Shorter than the header, or another first byte: WRONG_MAGIC, and no byte of the value in the error."""
    with pytest.raises(DeadLetterError) as caught:
        split(value)
    assert caught.value.reason is Reason.WRONG_MAGIC
