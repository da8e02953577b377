"""What the lake's reader takes from librdkafka's messages: records before the end, and what ends a range."""

import pytest
from confluent_kafka import KafkaError, Message

from aggregator.coordinates import LEFT_OUT_HEADER, ORIGIN_HEADER
from aggregator.kafka.readers.committed_reader import CommittedRecords, _runs, _take


def record(offset: int, partition: int = 0) -> Message:
    """A record as librdkafka hands it out."""
    headers = [("traceparent", b"0"), (ORIGIN_HEADER, b"o%d" % offset)]
    return Message(
        topic="t", partition=partition, offset=offset, key=b"k", value=b"v", headers=headers, timestamp=(1, offset)
    )


def error(code: int, offset: int) -> Message:
    """An error as librdkafka hands it out."""
    return Message(topic="t", partition=0, offset=offset, error=KafkaError(code))


EOF, RESET, TRANSPORT = KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError._TRANSPORT


@pytest.mark.parametrize(
    ("messages", "offsets", "ended", "trouble"),
    [
        pytest.param([record(0), record(1)], [0, 1], False, "", id="records"),
        pytest.param([record(3), record(4), record(6)], [3, 4], True, "", id="one past the end"),
        pytest.param([record(3), error(EOF, 5)], [3], True, "", id="end of partition at the end"),
        pytest.param([record(3), error(EOF, 4)], [3], False, "_PARTITION_EOF", id="of a leader that is behind"),
        pytest.param([error(TRANSPORT, -1), record(3)], [3], False, "_TRANSPORT", id="an error that passes"),
        pytest.param([error(RESET, 2)], [], True, "", id="a start that is gone"),
    ],
)
def test_what_is_taken_before_the_end(messages, offsets, ended, trouble):
    """Everything below the end, in order; an offset or end-of-partition at or past it ends the range."""
    piece = CommittedRecords("t", 0)
    taken = _take(piece, messages, 5)
    assert (piece.offsets, taken.ended, taken.trouble) == (offsets, ended, trouble)
    assert piece.origins == [b"o%d" % offset for offset in offsets]
    assert taken.size == 3 * len(offsets)
    assert (piece.held is not None) is (messages[0].error() is not None and messages[0].error().code() == RESET)


def test_runs_of_partitions_keep_their_order():
    """Messages of several partitions come in turns."""
    messages = [record(0), record(1), record(0, 1), record(2)]
    assert [(at, [one.offset() for one in run]) for at, run in _runs(messages, None)] == [
        (("t", 0), [0, 1]),
        (("t", 1), [0]),
        (("t", 0), [2]),
    ]
    assert list(_runs([], None)) == list(_runs([], ("t", 0))) == []


def test_an_error_of_the_client_itself_ends_nothing():
    """It has no topic and no offset, as where the principal has no right on groups; the range is read on."""
    refused = Message(error=KafkaError(KafkaError.GROUP_AUTHORIZATION_FAILED))
    ((_, messages),) = _runs([refused], ("t", 0))
    piece = CommittedRecords("t", 0)
    taken = _take(piece, messages, 5)
    assert (taken.size, taken.ended, taken.trouble) == (0, False, "GROUP_AUTHORIZATION_FAILED")
    assert _take(piece, [refused, error(EOF, 5)], 5).ended


def test_a_notice_of_what_was_left_out_is_no_tombstone():
    """Told apart by its header, and only without a value; what lies before an offset keeps what it is."""
    notice = [(ORIGIN_HEADER, b"o"), (LEFT_OUT_HEADER, b"suppressed")]
    kinds = [(b"v", notice), (None, notice), (None, notice[:1]), (None, None), (None, notice)]
    messages = [
        Message(topic="t", partition=0, offset=at, key=b"k", value=value, headers=headers, timestamp=(1, at))
        for at, (value, headers) in enumerate(kinds)
    ]
    piece = CommittedRecords("t", 0)
    _take(piece, messages, 9)
    assert piece.left_out == {1, 4}
    assert (piece.before(4).offsets, piece.before(4).left_out) == ([0, 1, 2, 3], {1})
