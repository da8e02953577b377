"""The words for gaps, and those that topics keep from before: `truncated` was said of an expired position."""

import pytest

from aggregator.coordinates import EdgePartition, Position
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import decode
from aggregator.state.requests import encode, fold_requests

FLOW = EdgePartition("eu", "orders", 3)
EXPIRED, TRUNCATED = Gap(GapKind.EXPIRED, 7, 15, 1), Gap(GapKind.TRUNCATED, 4, None, 1)
DAMAGED = Gap(GapKind.DAMAGED, 7, 15, 1)
OLD_LEDGER = {
    EXPIRED: b'{"crc":2598157811,"dead":0,"delivered":0,"epoch":3,"gap":{"end":15,"kind":"truncated","since_ms":1,'
    b'"start":7},"incarnation":0,"next_offset":7,"slot":5,"stripped":0,"suppressed":0,"topic_id":"id","v":1}',
    TRUNCATED: b'{"crc":1526584792,"dead":0,"delivered":0,"epoch":3,"gap":{"end":null,"kind":"shrunk","since_ms":1,'
    b'"start":4},"incarnation":0,"next_offset":7,"slot":5,"stripped":0,"suppressed":0,"topic_id":"id","v":1}',
    DAMAGED: b'{"crc":1553430521,"dead":0,"delivered":0,"epoch":3,"gap":{"end":15,"kind":"damaged","since_ms":1,'
    b'"start":7},"incarnation":0,"next_offset":7,"slot":5,"stripped":0,"suppressed":0,"topic_id":"id","v":1}',
}
OLD_REQUESTS = {
    EXPIRED: LogRecord(
        0,
        0,
        "gap/truncated/eu/orders/3/0/7/15",
        b'{"at_ms": 9, "automatic": false, "by": "ada@desk", "gap": {"end": 15, "kind": "truncated", "since_ms": 1,'
        b' "start": 7}, "position": [0, 7], "reason": "known outage", "source": "eu/orders/3", "v": 1}',
    ),
    TRUNCATED: LogRecord(
        0,
        1,
        "gap/shrunk/eu/orders/3/0/4/unknown",
        b'{"at_ms": 9, "automatic": false, "by": "ada@desk", "gap": {"end": null, "kind": "shrunk", "since_ms": 1,'
        b' "start": 4}, "position": [0, 7], "reason": "known outage", "source": "eu/orders/3", "v": 1}',
    ),
    DAMAGED: LogRecord(
        0,
        2,
        "gap/damaged/eu/orders/3/0/7/15",
        b'{"at_ms": 9, "automatic": false, "by": "ada@desk", "gap": {"end": 15, "kind": "damaged", "since_ms": 1,'
        b' "start": 7}, "position": [0, 7], "reason": "known outage", "source": "eu/orders/3", "v": 1}',
    ),
}


@pytest.mark.parametrize("lost", [EXPIRED, TRUNCATED, DAMAGED], ids=lambda lost: lost.kind.value)
def test_a_ledger_record_of_before_holds_its_flow_for_the_same_gap(lost):
    """A hub that was replaced while a flow stood still finds the gap under its new name; what it writes says that."""
    found = decode(LogRecord(0, 0, str(FLOW), OLD_LEDGER[lost]), "h.ledger")
    assert found.gap == lost
    written = found.encode()
    assert f'"kind":"{lost.kind.value}"'.encode() in written
    assert decode(LogRecord(0, 1, str(FLOW), written), "h.ledger") == found


@pytest.mark.parametrize("lost", [EXPIRED, TRUNCATED, DAMAGED], ids=lambda lost: lost.kind.value)
def test_a_decision_of_before_is_one_about_the_same_gap(lost):
    """What somebody accepted stays accepted; decided once more under today's word, it is still one decision."""
    today = GapDecision(FLOW, Position(0, 7), lost, "ada@desk", 9, "known outage")
    key, value = encode(today)
    assert key.startswith(f"gap/{lost.kind.value}/")
    for records in ([OLD_REQUESTS[lost]], [OLD_REQUESTS[lost], LogRecord(0, 2, key, value)]):
        found = fold_requests(records, "h.requests")
        assert (found.decisions, found.damaged) == ((today,), ())


def test_a_word_that_was_never_one_is_none():
    """Only the words that were written once are read."""
    with pytest.raises(ValueError, match="eaten"):
        GapKind("eaten")
