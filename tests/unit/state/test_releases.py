"""Releases of held ranges as they lie in the requests topic."""

from dataclasses import replace

from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.releases import Release, fold_releases
from aggregator.state.requests import fold_requests

RELEASE = Release("orders", CentralPartition("eu.orders", "AAA", 1), OffsetRange(7, 9), "ada@desk", 5, "test data")


def test_a_release_comes_back_whole():
    """Who, when, why, and the offsets of one life of one topic; saying it twice is saying it once."""
    key, value = RELEASE.encode()
    assert key == "release/orders/eu.orders@AAA-1/7-9"
    assert fold_releases([LogRecord(0, 0, key, value), LogRecord(0, 1, key, value)]) == (RELEASE,)


def test_other_requests_are_passed_over():
    """A key that is no release is somebody else's; a tombstone takes one back."""
    key, _ = RELEASE.encode()
    assert fold_releases([LogRecord(0, 0, "pause/eu", b"?"), LogRecord(0, 1, key, None)]) == ()


def test_a_damaged_one_is_named_and_lets_nothing_pass():
    """Whatever is damaged about it, its range stays held, and other releases count."""
    key, value = RELEASE.encode()
    whole = LogRecord(0, 9, *replace(RELEASE, table="parcels").encode())
    for damaged in (
        b"?",
        b"{}",
        value.replace(b'"v": 1', b'"v": 2'),
        value.replace(b"reason", b"season"),
        replace(RELEASE, table="payments").encode()[1],
    ):
        records = [LogRecord(0, 4, key, damaged), whole]
        assert [one.table for one in fold_releases(records)] == ["parcels"]
        (told,) = fold_requests(records, "h.requests").damaged
        assert told == (
            f"h.requests offset 4: the request {key} is damaged: its range stays held until"
            " `aggregator lake release` is said again"
        )
