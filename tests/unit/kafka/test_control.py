"""The control topic's fold."""

from aggregator.kafka.control import ControlState, Epoch, Lease, encode, fold
from aggregator.kafka.log import LogRecord


def logged(*entries):
    return [LogRecord(0, offset, *encode(entry)) for offset, entry in enumerate(entries)]


def test_the_last_record_of_each_key_counts():
    """Epoch, lease and end fold independently, in log order."""
    first, second = Epoch(0, 2, 2, "a"), Epoch(1, 1, 2, "b")
    state = fold(ControlState(), logged(first, Lease("a", 1), 0, second, Lease("b", 5, released=True)))
    assert state == ControlState(second, Lease("b", 5, released=True), ended=0)
    assert state.newest == 1


def test_an_empty_topic_has_no_epoch():
    """Before the first start the newest epoch is -1, so that the first one is 0."""
    assert fold(ControlState(), []).newest == -1
