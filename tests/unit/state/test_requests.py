"""Requests: decisions about gaps as they lie in the topic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.coordinates import EdgePartition, Position
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.replicate.flow.gaps import position_after
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.requests import Requests, by_flow, encode, fold_requests

FLOW = EdgePartition("eu", "orders", 3)
DECISION = GapDecision(FLOW, Position(1, 10), Gap(GapKind.EXPIRED, 10, 15, 7), "ada@desk", 9, "known outage")
BATCH = GapDecision(FLOW, Position(1, 10), Gap(GapKind.DAMAGED, 10, 15, 7, 3), "ada@desk", 9, "the disk is lost")
UNKNOWN = GapDecision(FLOW, Position(1, 10), Gap(GapKind.DELETED, 10, None, 7), "ada@desk", 9, "gone for good")


def record(decision: GapDecision, offset: int = 0) -> LogRecord:
    key, value = encode(decision)
    return LogRecord(0, offset, key, value)


def test_a_decision_comes_back_whole():
    """Who, when, why and the exact gap survive; one gap is one key, an unknown tail another, and so is another log."""
    found = fold_requests([record(DECISION), record(UNKNOWN), record(BATCH), record(DECISION)], "h.requests")
    assert (found.decisions, found.damaged) == ((DECISION, UNKNOWN, BATCH), ())
    assert [one.key for one in found.decisions] == [
        "gap/expired/eu/orders/3/1/10/15",
        "gap/deleted/eu/orders/3/1/10/unknown",
        "gap/damaged/eu/orders/3/1/10/15/3",
    ]
    assert by_flow(found.decisions) == {FLOW: (DECISION, UNKNOWN, BATCH)}


def test_other_requests_are_passed_over_and_damaged_ones_refused():
    """A key that is no gap is somebody else's; a tombstone takes a request back; anything damaged is named."""
    key, value = encode(DECISION)
    assert fold_requests([LogRecord(0, 0, "other/eu", b"?"), LogRecord(0, 1, key, None)], "h.requests") == Requests()
    for damaged in (b"?", b"{}", value.replace(b'"v": 1', b'"v": 2'), value.replace(b"expired", b"eaten")):
        found = fold_requests([LogRecord(0, 4, key, damaged)], "h.requests")
        assert found.decisions == ()
        assert "offset 4" in found.damaged[0]


@pytest.mark.parametrize(
    ("kind", "start", "end", "offset"),
    [
        ("expired", 10, None, 10),
        ("damaged", 10, None, 10),
        ("expired", 10, 15, 2000),
        ("expired", 10, 15, 12),
        ("expired", 10, 5, 10),
        ("expired", 10, 10, 10),
        ("damaged", 9, 15, 10),
        ("truncated", 4000, None, 2000),
        ("deleted", 10, 15, 10),
        ("recreated", 10, 15, 10),
    ],
)
def test_a_decision_is_about_a_gap_of_its_position(kind, start, end, offset):
    """Nobody goes back, or over what was there, by a request that says another position than the one decided about."""
    forged = GapDecision(FLOW, Position(1, offset), Gap(GapKind(kind), start, end, 7), "ada@desk", 9, "known outage")
    found = fold_requests([record(forged, 4)], "h.requests")
    assert found.decisions == ()
    assert "offset 4" in found.damaged[0]


def test_a_decision_lies_under_the_key_of_its_gap():
    """Another key is another gap; an earlier word for the kind is none."""
    key, value = encode(DECISION)
    for other in (key.replace("/3/", "/4/"), key.replace("/15", "/16"), "gap/expired"):
        assert fold_requests([LogRecord(0, 4, other, value)], "h.requests").decisions == ()
    former = LogRecord(0, 4, key.replace("expired", "truncated"), value.replace(b"expired", b"truncated"))
    assert fold_requests([former], "h.requests").decisions == (DECISION,)


@given(st.builds(Position, st.integers(0, 9), st.integers(0, 99)), st.sampled_from(GapKind),
       st.integers(0, 120), st.none() | st.integers(0, 120))  # fmt: skip
def test_whoever_goes_on_never_goes_back(position, kind, start, end):
    """Within an incarnation; and a cut log's next one begins at or before the position."""
    made = GapDecision(FLOW, position, Gap(kind, start, end, 7), "ada@desk", 9, "r")
    folded = fold_requests([record(made)], "h.requests")
    assert bool(folded.decisions) is not bool(folded.damaged)
    for one in folded.decisions:
        on = position_after(one.gap, position)
        assert on >= position
        assert on.incarnation == position.incarnation or on.next_offset <= position.next_offset
