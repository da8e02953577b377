"""The hub's own start is not charged to edges: until its slots deliver, it is the hub that they wait for."""

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
    assert not start.is_beginning(0.0)
    assert start.is_busy(3, running, 10.0, ended=3)
    assert start.is_busy(4, running, 20.0, ended=3)
    assert start.is_beginning(69.0)
    assert start.is_busy(4, (), 71.0, ended=3)
    assert not start.is_beginning(71.0), "an epoch that never comes is no beginning"
    assert not start.is_busy(4, (SlotReport(0, 4, 1),), 80.0, ended=3)
    assert start.is_busy(4, (SlotReport(0, 4, 1),), 90.0, ended=4)
    assert start.is_beginning(90.0)


def test_a_slot_that_never_commits_is_not_waited_for():
    """An edge is judged a minute after the epoch began; the next epoch is waited for anew."""
    start = HubStart()
    idle = (SlotReport(0, 3, 0),)
    assert start.is_busy(3, idle, 100.0)
    assert start.is_busy(3, idle, 159.0)
    assert not start.is_busy(3, idle, 161.0)
    assert start.is_busy(4, (SlotReport(0, 4, 0),), 162.0)
