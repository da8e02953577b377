"""Requests: decisions about gaps as they lie in the topic."""

import pytest

from aggregator.coordinates import EdgePartition, Position
from aggregator.errors import Failed
from aggregator.kafka.log_record import LogRecord
from aggregator.state.gap import Decision, Gap, GapKind
from aggregator.state.requests import by_flow, encode, fold

FLOW = EdgePartition("eu", "orders", 3)
DECISION = Decision(FLOW, Position(1, 10), Gap(GapKind.TRUNCATED, 10, 15, 7), "ada@desk", 9, "known outage")
UNKNOWN = Decision(FLOW, Position(1, 10), Gap(GapKind.DELETED, 10, None, 7), "ada@desk", 9, "gone for good")


def record(decision: Decision, offset: int = 0) -> LogRecord:
    key, value = encode(decision)
    return LogRecord(0, offset, key, value)


def test_a_decision_comes_back_whole():
    """Who, when, why and the exact gap survive; one gap is one key, an unknown tail another."""
    found = fold([record(DECISION), record(UNKNOWN), record(DECISION)], "h.requests")
    assert list(found.values()) == [DECISION, UNKNOWN]
    assert list(found) == ["gap/truncated/eu/orders/3/1/10/15", "gap/deleted/eu/orders/3/1/10/unknown"]
    assert by_flow(found.values()) == {FLOW: (DECISION, UNKNOWN)}


def test_other_requests_are_passed_over_and_damaged_ones_refused():
    """A key that is no gap is somebody else's; a tombstone takes a request back; anything damaged is named."""
    key, value = encode(DECISION)
    assert fold([LogRecord(0, 0, "pause/eu", b"?"), LogRecord(0, 1, key, None)], "h.requests") == {}
    for damaged in (b"?", b"{}", value.replace(b'"v": 1', b'"v": 2'), value.replace(b"truncated", b"eaten")):
        with pytest.raises(Failed, match="offset 4"):
            fold([LogRecord(0, 4, key, damaged)], "h.requests")
