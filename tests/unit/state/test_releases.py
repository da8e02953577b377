"""Releases of held ranges as they lie in the requests topic."""

import pytest

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import Failed
from aggregator.kafka.log_record import LogRecord
from aggregator.state.releases import Release, fold_releases

RELEASE = Release("orders", CentralPartition("eu.orders", "AAA", 1), OffsetRange(7, 9), "ada@desk", 5, "test data")


def test_a_release_comes_back_whole():
    """Who, when, why, and the offsets of one life of one topic; saying it twice is saying it once."""
    key, value = RELEASE.encode()
    assert key == "release/orders/eu.orders@AAA-1/7-9"
    assert fold_releases([LogRecord(0, 0, key, value), LogRecord(0, 1, key, value)], "h.requests") == (RELEASE,)


def test_other_requests_are_passed_over_and_damaged_ones_refused():
    """A key that is no release is somebody else's; a tombstone takes one back; anything damaged is named."""
    key, value = RELEASE.encode()
    assert fold_releases([LogRecord(0, 0, "pause/eu", b"?"), LogRecord(0, 1, key, None)], "h.requests") == ()
    for damaged in (b"?", b"{}", value.replace(b'"v": 1', b'"v": 2'), value.replace(b"reason", b"season")):
        with pytest.raises(Failed, match="offset 4"):
            fold_releases([LogRecord(0, 4, key, damaged)], "h.requests")
