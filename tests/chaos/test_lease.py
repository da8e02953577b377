"""The lease and the driver's own fencing, on a real broker and without Spark."""

import threading
import time

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from aggregator.errors import AnotherHub, FatalError, Fenced, OutcomeUnknown, TransactionAborted
from aggregator.kafka.client import clients, credentials
from aggregator.kafka.probes.transactional_rights import writable
from aggregator.replicate.driver import Driver
from aggregator.replicate.leadership import leadership
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.lease import RENEW_INTERVAL_S
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from aggregator.state.control import Lease
from aggregator.threads import Threads
from tests.trial import wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]


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
    leadership.await_lease(epochs.central, "another hub", standby=standby, stop=threading.Event(), hint="")


def test_lease_a_second_driver_leaves_a_living_one_alone(epochs):
    """Lease: read before the id is taken; a lease that moves refuses the second driver, and the first never notices."""
    renewal = LeaseRenewal(epochs.central, "first")
    renewal.start(Threads())
    with pytest.raises(AnotherHub, match="first") as refused:
        driver_of(epochs).run()
    assert refused.value.exit_code == 6
    assert renewal.lost is None
    renewal.renew()
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
    assert leadership.explain_fencing(epochs.central, -1, "first", fenced).exit_code == 1
    other.publish(Lease("other", 1))
    verdict = leadership.explain_fencing(epochs.central, -1, "first", fenced)
    assert (verdict.exit_code, "other" in str(verdict)) == (6, True)


def test_a_lease_that_central_refuses_is_said_once_and_moves_again(epochs, caplog):
    """Nobody would know that a standby may take over; the driver goes on, because it still has its id."""
    control, central = epochs.names.control, epochs.config.central
    renewal = LeaseRenewal(epochs.central, "first")
    renewal.start(Threads())
    set_topic(central, control, "max.message.bytes", "100")  # takes a marker, and no lease
    wait_for(lambda: "lease does not move" in caplog.text, timeout=20, what="the refusal")
    time.sleep(2 * RENEW_INTERVAL_S)
    set_topic(central, control, "max.message.bytes", "1000000")
    wait_for(lambda: "lease moves again" in caplog.text, timeout=20, what="the next beat")
    assert caplog.text.count("lease does not move") == 1
    assert renewal.lost is None
    renewal.release()


def test_a_question_for_the_right_to_an_id_takes_it_from_nobody(epochs):
    """The time-out that is asked for is refused, and whoever has the id commits on."""
    epochs.central.publish(Lease("first", 1))
    ids = [epochs.names.driver_id, epochs.names.decisions]
    told = writable(epochs.config.central, ids, unused=epochs.names.unused_id, longest_ms=None, timeout_s=10.0)
    assert told == dict.fromkeys([*ids, epochs.names.unused_id], True)
    epochs.central.publish(Lease("first", 2))
    assert epochs.central.read_control().lease.beat == 2


@pytest.fixture
def renewable(epochs, tmp_path, monkeypatch):
    """A driver that leads, and a way to renew what its client signs in by; a plain listener asks nobody for it."""
    monkeypatch.setattr(credentials, "EVERY_S", 0.0)
    trust = tmp_path / "trust.pem"
    trust.write_text("first")
    client = {"ssl.ca.location": str(trust)}
    config = epochs.config
    central = config.central.model_copy(update={"client": client})
    made = KafkaDriverCentral(config.model_copy(update={"central": central}), epochs.names)
    made.take_id()
    made.publish(Lease("first", 1))
    yield made, lambda: trust.write_text("the second")
    made.close()


def test_rule_b_a_driver_takes_its_id_anew_when_what_it_signs_in_by_is_renewed(renewable):
    """Else the connection ends with the former certificate, and no lease is moved any more."""
    central, renew = renewable
    former = central._writer
    renew()
    central.publish(Lease("first", 2))
    assert central._writer is not former
    assert central.read_control().lease.beat == 2
    kept = central._writer
    central.publish(Lease("first", 3))
    assert central._writer is kept


def test_rule_c_a_slot_takes_its_id_anew_when_what_it_signs_in_by_is_renewed(renewable, epochs):
    """Between two transactions: its producer says that it cannot go on, and the next one has what was renewed."""
    central, renew = renewable
    ports = KafkaSlotPorts(central._config, epochs.names, 0, batch_bytes=1_000_000)
    writer = ports.open_writer()
    writer.open()
    writer.begin()
    renew()
    writer.produce(f"eu.{epochs.trial.topic}", b"k", b"v", partition=0)
    writer.abort()
    with pytest.raises(OutcomeUnknown, match="what was renewed"):
        writer.begin()
    writer.close()
    fresh = ports.open_writer()
    fresh.open()
    fresh.begin()
    fresh.abort()
    fresh.close()
    ports.close()


def test_rule_b_a_renewal_takes_the_id_from_nobody(renewable, epochs):
    """Another driver leads: the id stays its own, and this driver is fenced as ever."""
    central, renew = renewable
    other = epochs.driver()
    other.publish(Lease("other", 1))
    renew()
    with pytest.raises(Fenced, match="other"):
        central.publish(Lease("first", 2))
    other.publish(Lease("other", 2))


def test_lease_a_driver_that_is_let_in_no_more_ends_with_the_cause(epochs):
    """An expired certificate, as central's client tells it; before that the same is said once, and asked again."""

    class Shut(KafkaDriverCentral):
        """Central lets nobody in."""

        def publish(self, *_):
            raise TransactionAborted("Local: Message timed out")

        def authentication_error(self):
            return "certificate expired"

    central, clock = Shut(epochs.config, epochs.names), iter([0.0, 1.0, 250.0, 251.0, 310.0, 311.0])
    renewal = LeaseRenewal(central, "first", now=lambda: next(clock))
    renewal.try_renew()
    renewal.try_renew()
    with pytest.raises(FatalError, match="certificate expired") as ended:
        renewal.try_renew()
    assert "central.client" in ended.value.hint
    central.close()
