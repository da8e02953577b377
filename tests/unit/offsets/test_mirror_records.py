"""MirrorMaker 2's bytes: checkpoints and offset syncs, byte for byte, and nothing else is read as one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.offsets.mirror_records import Checkpoint, OffsetSync, checkpoint, offset_sync

TOLD = Checkpoint("grp", "edge1.orders", 3, 1234, 1200)
TOLD_KEY, TOLD_VALUE = "0003677270000c65646765312e6f726465727300000003", "000000000000000004d200000000000004b00000"
SYNC = OffsetSync("orders", 3, 1234, 1200)
SYNC_KEY, SYNC_VALUE = "00066f726465727300000003", "00000000000004d200000000000004b0"
NAMES = st.text(st.characters(blacklist_categories=("Cs",)), max_size=40)
OFFSETS = st.integers(0, 2**63 - 1)


def test_the_bytes_are_kafkas():
    """Vectors from Apache Kafka's own encoder."""
    assert (TOLD.encode_key().hex(), TOLD.encode_value().hex()) == (TOLD_KEY, TOLD_VALUE)
    assert (SYNC.encode_key().hex(), SYNC.encode_value().hex()) == (SYNC_KEY, SYNC_VALUE)


@given(
    st.builds(Checkpoint, NAMES, NAMES, st.integers(0, 2**31 - 1), OFFSETS, OFFSETS, NAMES),
    st.builds(OffsetSync, NAMES, st.integers(0, 2**31 - 1), OFFSETS, OFFSETS),
)
def test_what_is_written_is_read_back(told, sync):
    """Any names and offsets."""
    assert checkpoint(told.encode_key(), told.encode_value()) == told
    assert offset_sync(sync.encode_key(), sync.encode_value()) == sync


KEY, VALUE = bytes.fromhex(TOLD_KEY), bytes.fromhex(TOLD_VALUE)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, VALUE),
        (KEY, None),
        (b"", VALUE),
        (KEY[:-1], VALUE),
        (KEY + b"\0", VALUE),
        (b"\xff\xff" + KEY[2:], VALUE),
        (b"\0\x03\xff\xfe\xfd" + KEY[5:], VALUE),
        (KEY[:-4] + b"\xff\xff\xff\xff", VALUE),
        (KEY, VALUE[:-1]),
        (KEY, VALUE + b"\0"),
        (KEY, b"\0\x01" + VALUE[2:]),
        (KEY, VALUE[:2] + b"\xff" * 8 + VALUE[10:]),
    ],
)
def test_what_is_no_checkpoint_is_refused(key, value):
    """Cut, too long, of another version, with offsets below nothing, no UTF-8."""
    with pytest.raises(ValueError, match=r"."):
        checkpoint(key, value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"\0" * 16),
        (bytes.fromhex(SYNC_KEY), None),
        (bytes.fromhex(SYNC_KEY), b"\0" * 15),
        (bytes.fromhex(SYNC_KEY), b"\xff" * 16),
        (b"\0\x06ord", b"\0" * 16),
    ],
)
def test_what_is_no_sync_is_refused(key, value):
    """As a checkpoint."""
    with pytest.raises(ValueError, match=r"."):
        offset_sync(key, value)
