"""The hub's own start is not charged to edges: until its slots deliver, it is the hub that they wait for."""

import pytest

from aggregator.observe.hub_start import HubStart
from aggregator.state.telemetry import SlotReport


def test_a_hub_is_busy_until_each_of_its_slots_has_committed():
    """Words of a former epoch, and of a slot that has delivered nothing, are no sign that edges can be judged."""
    start = HubStart()
    assert start.is_busy(3, (), 0.0)
    assert start.is_busy(3, (SlotReport(0, 2, 90),), 1.0)
    assert start.is_busy(3, (SlotReport(0, 3, 7), SlotReport(1, 3, 0)), 2.0)
    assert not start.is_busy(3, (SlotReport(0, 3, 9), SlotReport(1, 3, 1)), 3.0)


def test_the_end_of_an_epoch_is_the_hub_s_own_time_too():
    """Its slots have stopped, and their last words are still fresh; a beginning takes a minute at most."""
    start, running = HubStart(), (SlotReport(0, 3, 9),)
    assert not start.is_busy(3, running, 0.0, ended=2)
    assert start.waits(0.0) == ""
    assert start.is_busy(3, running, 10.0, ended=3)
    assert start.is_busy(4, running, 20.0, ended=3)
    assert "changes its epoch" in start.waits(69.0)
    assert start.is_busy(4, (), 71.0, ended=3)
    assert start.waits(71.0) == "", "an epoch that never comes is no beginning"
    assert not start.is_busy(4, (SlotReport(0, 4, 1),), 80.0, ended=3)
    assert start.is_busy(4, (SlotReport(0, 4, 1),), 190.0, ended=4)
    assert "changes its epoch" in start.waits(190.0)


@pytest.mark.parametrize("every_s", [50, 61, 70, 90])
def test_epochs_that_end_again_and_again_hide_no_standstill(every_s):
    """One of two slots never delivers, in half an hour of epochs: a minute of it is a beginning."""
    start, hidden = HubStart(), 0
    for now_s in range(1800):
        epoch = now_s // every_s
        slots = (SlotReport(0, epoch, 5), SlotReport(1, epoch, 0))
        hidden += bool(start.is_busy(epoch, slots, float(now_s)) and start.waits(float(now_s)))
    assert hidden <= 60


def test_a_silence_of_central_is_no_edge_s():
    """However long it lasts, and until heartbeats have found their way again; then edges are judged as ever."""
    start, running = HubStart(), (SlotReport(0, 3, 9),)
    assert not start.is_busy(3, running, 0.0), "nothing was heard yet, as before a pulse"
    start.hear(1.0)
    assert not start.is_busy(3, running, 4.9)
    for now_s in (10.0, 100.0, 500.0):
        assert start.is_busy(3, running, now_s)
        assert "central does not answer" in start.waits(now_s)
    start.hear(501.0)
    for now_s in range(502, 521):
        start.hear(now_s)
        assert start.is_busy(3, running, now_s)
        assert "central" in start.waits(now_s)
    start.hear(522.0)
    assert not start.is_busy(3, running, 522.0)
    assert start.waits(522.0) == ""


def test_a_silence_that_nobody_looked_at_was_one():
    """Whoever watches may wait for central, too, and looks again when it is back."""
    start, running = HubStart(), (SlotReport(0, 3, 9),)
    start.hear(1.0)
    start.hear(30.0)
    assert start.is_busy(3, running, 30.1)
    assert "central" in start.waits(30.1)


def test_a_slot_that_never_commits_is_not_waited_for():
    """An edge is judged a minute after the epoch began; the next epoch is waited for anew."""
    start = HubStart()
    idle = (SlotReport(0, 3, 0),)
    assert start.is_busy(3, idle, 100.0)
    assert start.is_busy(3, idle, 159.0)
    assert not start.is_busy(3, idle, 161.0)
    assert start.is_busy(4, (SlotReport(0, 4, 0),), 162.0)
