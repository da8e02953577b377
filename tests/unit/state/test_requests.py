"""Requests: decisions about gaps as they lie in the topic."""

from aggregator.coordinates import EdgePartition, Position
from aggregator.kafka.log_record import LogRecord
from aggregator.state.gap import Decision, Gap, GapKind
from aggregator.state.requests import Requests, by_flow, encode, fold_requests

FLOW = EdgePartition("eu", "orders", 3)
DECISION = Decision(FLOW, Position(1, 10), Gap(GapKind.EXPIRED, 10, 15, 7), "ada@desk", 9, "known outage")
UNKNOWN = Decision(FLOW, Position(1, 10), Gap(GapKind.DELETED, 10, None, 7), "ada@desk", 9, "gone for good")


def record(decision: Decision, offset: int = 0) -> LogRecord:
    key, value = encode(decision)
    return LogRecord(0, offset, key, value)


def test_a_decision_comes_back_whole():
    """Who, when, why and the exact gap survive; one gap is one key, an unknown tail another."""
    found = fold_requests([record(DECISION), record(UNKNOWN), record(DECISION)], "h.requests")
    assert (found.decisions, found.damaged) == ((DECISION, UNKNOWN), ())
    assert [one.key for one in found.decisions] == [
        "gap/expired/eu/orders/3/1/10/15",
        "gap/deleted/eu/orders/3/1/10/unknown",
    ]
    assert by_flow(found.decisions) == {FLOW: (DECISION, UNKNOWN)}


def test_other_requests_are_passed_over_and_damaged_ones_refused():
    """A key that is no gap is somebody else's; a tombstone takes a request back; anything damaged is named."""
    key, value = encode(DECISION)
    assert fold_requests([LogRecord(0, 0, "other/eu", b"?"), LogRecord(0, 1, key, None)], "h.requests") == Requests()
    for damaged in (b"?", b"{}", value.replace(b'"v": 1', b'"v": 2'), value.replace(b"expired", b"eaten")):
        found = fold_requests([LogRecord(0, 4, key, damaged)], "h.requests")
        assert found.decisions == ()
        assert "offset 4" in found.damaged[0]
