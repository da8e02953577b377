"""Brokers of three that are lost: a leader, the coordinator, the controller, most of them, a leader's last records."""

import contextlib
import time
from dataclasses import dataclass

import pytest

from tests.chaos.rolls import RECOVERY_S, START_S, judged
from tests.chaos.steady_load import EDGES, Steady
from tests.chaos.supervisor import supervised
from tests.chaos.unclean_election import unclean_election
from tests.trial import Trial, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

DOWN_S = 26.0
_CATCH_UP_S = 15.0


def coordinator(cluster, transactional_id: str):
    """The broker that coordinates an id: the leader of the partition that the id's hash in Java points to."""
    hashed = 0
    for character in transactional_id:
        hashed = (31 * hashed + ord(character)) & 0xFFFFFFFF
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return cluster.leader("__transaction_state", abs(signed) % cluster.partitions("__transaction_state"))


def leader_in_the_produce_phase(trial, fault):
    """The leader of a data partition, frozen until nothing can be committed: a transaction is open when it dies."""
    broker = trial.sandbox.central.leader(f"eu.{trial.topic}", 0)
    broker.freeze()
    time.sleep(1)
    fault.stands_still(1)
    return broker, lambda: trial.sandbox.central.leader(f"eu.{trial.topic}", 0)


def coordinator_of_the_slot(trial, _fault):
    """The broker that coordinates the transactions of the slot."""
    found = coordinator(trial.sandbox.central, f"{trial.hub}.slot-0")
    return found, lambda: coordinator(trial.sandbox.central, f"{trial.hub}.slot-0")


def active_controller(trial, _fault):
    """The broker that leads the quorum."""
    return trial.sandbox.central.controller(), trial.sandbox.central.controller


@dataclass
class Fault:
    """What befalls a hub under a steady load.

    Attributes:
        steady: The load.
        began: When, in monotonic seconds.
        told: What was seen of it, for whoever reads the log.
    """

    steady: Steady
    began: float
    told: str = ""

    def stands_still(self, seconds: float) -> None:
        """Nothing arrives for so long, or the fault did not hit; a reader that was short of time first catches up."""
        arrived = self.steady.arrived["eu"]
        newest, since = len(arrived), time.monotonic()

        def quiet() -> bool:
            nonlocal newest, since
            if len(arrived) != newest:
                newest, since = len(arrived), time.monotonic()
            return time.monotonic() - since >= seconds

        wait_for(quiet, timeout=seconds + _CATCH_UP_S, what="a time without commits: the fault did not hit")


@contextlib.contextmanager
def endured(trial, *, exits: frozenset[int] = frozenset(), recovery_s: float = RECOVERY_S):
    """A hub that flows, a fault in the block, all of it there soon after, and the verdict on every record.

    Args:
        trial: Whose hub.
        exits: How its process may end meanwhile; it is started again.
        recovery_s: From the block's end until everything is at central.
    """
    with supervised(trial) as hub, Steady(trial) as steady:
        steady.reach(timeout=START_S)
        fault = Fault(steady, time.monotonic())
        yield fault
        healed = time.monotonic()
        steady.reach(timeout=recovery_s)
        ended = time.monotonic()
        steady.stop()
        print(f"{fault.told}; healed after {healed - fault.began:.0f} s, all there {ended - healed:.1f} s later")
        print(f"  ends {[code for code, _ in hub.ends]}")
        for edge in EDGES:
            print(f"  {edge} {steady.spell(edge, fault.began, ended)}")
    assert {code for code, _ in hub.ends} <= exits
    trial.drain()
    judged(trial)


@pytest.mark.parametrize("doomed", [leader_in_the_produce_phase, coordinator_of_the_slot, active_controller])
def test_a_broker_of_central_is_lost_for_a_while(replicated_trial, doomed):
    """Fault 30 (I1, I2, I4, I8): kill -9 for longer than a transaction may last; the two others take over."""
    trial, central = replicated_trial, replicated_trial.sandbox.central
    with endured(trial) as fault:
        broker, successor = doomed(trial, fault)
        broker.kill()
        after = wait_for(lambda: (now := successor()) not in {None, broker} and now, timeout=30, what="a successor")
        moved_s = time.monotonic() - fault.began
        took = fault.steady.reach(timeout=RECOVERY_S)
        fault.told = f"{broker.name} lost, {after.name} followed in {moved_s:.1f} s; all there {took} s later"
        time.sleep(max(0.0, fault.began + DOWN_S - time.monotonic()))
        assert central.lagging(), "the broker is back: the fault did not hit"
        broker.start()
        central.wait_in_sync()


def test_most_brokers_of_central_are_lost_and_come_back(replicated_trial):
    """Fault 30 (I1, I2, I4, I8): two of three die; nothing can be written until they are back, and then all is."""
    central = replicated_trial.sandbox.central
    with endured(replicated_trial, exits=frozenset({1}), recovery_s=2 * RECOVERY_S) as fault:
        doomed = central.brokers[:2]
        fault.told = f"{[broker.name for broker in doomed]} lost"
        for broker in doomed:
            broker.kill()
        time.sleep(1)
        fault.stands_still(DOWN_S)
        for broker in doomed:
            broker.spawn()
        central.wait_ready()


def test_central_refuses_writes_for_want_of_replicas(replicated_trial):
    """Fault 30 (I1, I2, I4, I8): NOT_ENOUGH_REPLICAS for the data alone, coordinator and ledger are well; it passes."""
    trial, central = replicated_trial, replicated_trial.sandbox.central
    with endured(trial, exits=frozenset({1}), recovery_s=2 * RECOVERY_S) as fault:
        broker = central.leader(f"eu.{trial.topic}", 0)
        fault.told = f"{broker.name} lost where three replicas must have every record"
        trial.configure(
            "central", f"eu.{trial.topic}", "min.insync.replicas", "3"
        )  # all three are there: it still flows
        broker.kill()
        time.sleep(8)
        fault.stands_still(DOWN_S)
        broker.start()
        central.wait_in_sync()


@pytest.mark.parametrize("grows_again", [False, True])
def test_an_unclean_election_at_an_edge_is_a_gap(replicated, tmp_path, grows_again):
    """Fault 30 (I5): a leader dies with records that its follower lacks, which leads from now on: named, never silence.

    The follower's log ends below the position of the hub, or has grown beyond it with other records.
    """
    unclean_election(Trial(replicated, tmp_path), grows_again=grows_again)
