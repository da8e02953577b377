"""The control topic's fold."""

import pytest

from aggregator.errors import Failed
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.state.control import ControlState, Epoch, Lease, encode, fold


def logged(*entries):
    return [LogRecord(0, offset, *encode(entry)) for offset, entry in enumerate(entries)]


def test_the_last_record_of_each_key_counts():
    """Epoch, lease and end fold independently, in log order."""
    first, second = Epoch(0, 2, 2, "a"), Epoch(1, 1, 2, "b")
    records = logged(first, Lease("a", 1), 0, second, Lease("b", 5, released=True))
    state = fold(ControlState(), records, "h.control")
    assert state == ControlState(second, Lease("b", 5, released=True), ended=0)
    assert state.newest == 1


def test_an_empty_topic_has_no_epoch():
    """Before the first start the newest epoch is -1, so that the first one is 0."""
    assert fold(ControlState(), [], "h.control").newest == -1


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"epoch":Infinity}', b'{"epoch":"1"}', None])
@pytest.mark.parametrize("key", ["epoch", "lease", "end", "pace"])
def test_a_damaged_control_record_is_refused_by_name(key, value):
    """Whatever is wrong with it; a key that nobody knows is passed over."""
    with pytest.raises(Failed, match=f"h.control offset 7: the control record {key} is damaged"):
        fold(ControlState(), [LogRecord(0, 7, key, value)], "h.control")
    assert fold(ControlState(), [LogRecord(0, 7, "other", value)], "h.control") == ControlState()


@pytest.mark.parametrize("value", [b"?", b"{}", b'{"topic":"t","partition":0,"start":Infinity,"end":1}', None])
@pytest.mark.parametrize("key", ["undecided/", "undecided/t", "undecided/t/x", "undecided/t/-1"])
def test_a_damaged_note_is_refused_by_name(key, value):
    """Also where it is a tombstone of no partition."""
    with pytest.raises(Failed, match=f"h.control offset 7: the control record {key} is damaged"):
        fold(ControlState(), [LogRecord(0, 7, key, value)], "h.control")
