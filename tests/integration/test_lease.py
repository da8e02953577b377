"""The lease and the driver's own fencing, on a real broker and without Spark."""

import threading
import time

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from aggregator.errors import AnotherHub, Fenced
from aggregator.kafka.client import clients
from aggregator.replicate.driver import Driver
from aggregator.replicate.leadership import leadership
from aggregator.replicate.leadership.lease import BEAT_S
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.state.control import Lease
from aggregator.threads import Threads
from tests.trial import wait_for

pytestmark = pytest.mark.brokers


def driver_of(epochs, identity="second") -> Driver:
    """A driver that has not started anything; it needs no Spark to look at the lease."""
    stop = threading.Event()
    return Driver(epochs.config, None, epochs.policies, identity=identity, drain=True, stop=stop, threads=Threads(stop))


def set_topic(cluster, topic, name, value) -> None:
    """Alter one setting of a topic."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    clients.admin(cluster).incremental_alter_configs([resource])[resource].result(20)


def awaited(epochs, *, standby: bool) -> None:
    """Wait for the turn of a driver that has not started anything."""
    leadership.await_turn(epochs.central, "another hub", standby=standby, stop=threading.Event(), hint="")


def test_lease_a_second_driver_leaves_a_living_one_alone(epochs):
    """Lease: read before the id is taken; a lease that moves refuses the second driver, and the first never notices."""
    renewal = LeaseRenewal(epochs.central, "first")
    renewal.start(Threads())
    with pytest.raises(AnotherHub, match="first") as refused:
        driver_of(epochs).run()
    assert refused.value.exit_code == 6
    assert renewal.lost is None
    renewal.beat()
    standby = threading.Thread(target=lambda: awaited(epochs, standby=True))
    standby.start()
    standby.join(5)
    assert standby.is_alive(), "a standby waits as long as the lease moves"
    renewal.release()
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
    renewal = LeaseRenewal(epochs.central, "first")
    renewal.start(Threads())
    other = epochs.driver()
    fenced = wait_for(lambda: renewal.lost, timeout=20, what="the renewal's loss")
    assert isinstance(fenced, Fenced)
    assert leadership.overtaken(epochs.central, -1, "first", fenced).exit_code == 1
    other.publish(Lease("other", 1))
    verdict = leadership.overtaken(epochs.central, -1, "first", fenced)
    assert (verdict.exit_code, "other" in str(verdict)) == (6, True)


def test_a_lease_that_central_refuses_is_said_once_and_moves_again(epochs, caplog):
    """Nobody would know that a standby may take over; the driver goes on, because it still has its id."""
    control, central = epochs.names.control, epochs.config.central
    renewal = LeaseRenewal(epochs.central, "first")
    renewal.start(Threads())
    set_topic(central, control, "max.message.bytes", "100")  # takes a marker, and no lease
    wait_for(lambda: "refuses to move the lease" in caplog.text, timeout=20, what="the refusal")
    time.sleep(2 * BEAT_S)
    set_topic(central, control, "max.message.bytes", "1000000")
    wait_for(lambda: "moves the lease again" in caplog.text, timeout=20, what="the next beat")
    assert caplog.text.count("refuses to move the lease") == 1
    assert renewal.lost is None
    renewal.release()
