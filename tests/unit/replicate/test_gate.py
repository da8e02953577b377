"""The gate: closed partitions, how long they are waited for, and when only another epoch helps."""

import pytest

from aggregator.coordinates import OffsetRange
from aggregator.replicate.cadence import Cadence
from aggregator.replicate.gate import STUCK_S, Gate
from aggregator.replicate.slot_plan import SlotPlan
from aggregator.state.names import HubNames

PLAN = SlotPlan(HubNames("hub"), 1, 0, (), Cadence(0.5, 1 << 20), drain=False, patience_s=5.0)
LEDGER = (PLAN.names.ledger, 0)


class World:
    """Central as the gate sees it; `stable` is the ledger's last stable offset."""

    def __init__(self):
        self.stable, self.end, self.time_s, self.asked = 0, 0, 0.0, 0

    def undecided(self, places):
        self.asked += 1
        return {at: OffsetRange(self.stable, self.end) if at == LEDGER else OffsetRange(0, 0) for at in places}

    def partitions(self, _topic):
        return 1

    def now(self):
        return self.time_s

    def sleep(self, seconds):
        self.time_s += seconds


@pytest.fixture
def world():
    """One that has just committed five records, whose marker is not there."""
    made = World()
    made.end = 5
    return made


@pytest.fixture
def gate(world):
    """Closed, because its patience is over."""
    made = Gate(world, PLAN)
    made.over([LEDGER])
    assert "hub.ledger-0" in made.closed([])
    return made


def test_the_end_is_that_of_the_transaction_before(world, gate):
    """What others write behind it keeps nothing closed."""
    world.stable, world.end = 5, 900
    world.time_s += 1
    assert gate.closed([]) == ""


def test_nothing_is_asked_twice_where_nothing_was_written(world):
    """An open partition costs no question until the next transaction is over."""
    world.stable = 5
    gate = Gate(world, PLAN)
    assert gate.closed([]) == ""
    asked = world.asked
    assert [gate.closed([]) for _ in range(9)] == [""] * 9
    assert world.asked == asked


def test_only_what_stays_closed_ends_the_epoch(world, gate):
    """A partition that was decided while nobody wanted to write there is not stuck; one that was not is."""
    world.time_s += STUCK_S + 1
    assert gate.stuck()
    world.stable = 5
    world.time_s += 1
    assert not gate.stuck()
