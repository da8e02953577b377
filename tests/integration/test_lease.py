"""The lease and the driver's own fencing, on a real broker and without Spark."""

import threading
import time

import pytest

from aggregator.errors import AnotherHub, Fenced
from aggregator.replicate import leadership
from aggregator.replicate.driver import Driver
from aggregator.replicate.lease_renewal import LeaseKeeper
from aggregator.state.control import Lease
from aggregator.threads import Threads
from tests.trial import wait_for

pytestmark = pytest.mark.brokers


def driver_of(epochs, identity="second") -> Driver:
    """A driver that has not started anything; it needs no Spark to look at the lease."""
    stop = threading.Event()
    return Driver(epochs.config, None, epochs.policies, identity=identity, drain=True, stop=stop, threads=Threads(stop))


def awaited(epochs, *, standby: bool) -> None:
    """Wait for the turn of a driver that has not started anything."""
    leadership.await_turn(epochs.central, "another hub", standby=standby, stop=threading.Event(), hint="")


def test_lease_a_second_driver_leaves_a_living_one_alone(epochs):
    """Lease: read before the id is taken; a lease that moves refuses the second driver, and the first never notices."""
    keeper = LeaseKeeper(epochs.central, "first")
    keeper.start(Threads())
    with pytest.raises(AnotherHub, match="first") as refused:
        driver_of(epochs).run()
    assert refused.value.exit_code == 6
    assert keeper.lost is None
    keeper.beat()
    standby = threading.Thread(target=lambda: awaited(epochs, standby=True))
    standby.start()
    standby.join(5)
    assert standby.is_alive(), "a standby waits as long as the lease moves"
    keeper.release()
    standby.join(10)
    assert not standby.is_alive(), "a released lease lets it go on"


def test_lease_a_dead_driver_is_waited_for_six_seconds_and_a_released_one_not_at_all(epochs):
    """Lease: only its movement is watched, never a clock."""
    epochs.central.publish(Lease("dead", 1))
    began = time.monotonic()
    awaited(epochs, standby=False)
    assert time.monotonic() - began >= 6
    epochs.central.publish(Lease("dead", 2, released=True))
    began = time.monotonic()
    awaited(epochs, standby=False)
    assert time.monotonic() - began < 6


def test_rule_e_a_fenced_driver_says_who_did_it(epochs, monkeypatch):
    """Rule E: with another driver's epoch or lease in sight it is code 6; a coordinator's time-out alone is code 1."""
    monkeypatch.setattr(leadership, "_TAKEN_OVER_S", 1.0)
    keeper = LeaseKeeper(epochs.central, "first")
    keeper.start(Threads())
    other = epochs.driver()
    fenced = wait_for(lambda: keeper.lost, timeout=20, what="the keeper's loss")
    assert isinstance(fenced, Fenced)
    assert leadership.overtaken(epochs.central, -1, "first", fenced).exit_code == 1
    other.publish(Lease("other", 1))
    verdict = leadership.overtaken(epochs.central, -1, "first", fenced)
    assert (verdict.exit_code, "other" in str(verdict)) == (6, True)
