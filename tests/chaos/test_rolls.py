"""Rolling restarts: each of three brokers in turn, by a controlled shutdown, while records flow."""

import time

import pytest

from tests.chaos.steady import EDGES, Steady
from tests.chaos.supervisor import supervised
from tests.chaos.truth import Truth

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(900)]

CALM_S = 8.0
START_S = 120.0
RECOVERY_S = 60.0


def judged(trial) -> None:
    """I1, I2, I4, of all that the edges have: nothing lost, doubled or reordered, at central and in the lake."""
    truth = Truth(trial)
    for edge in EDGES:
        truth.absorb(edge)
    verdict = truth.judge(set())
    print(verdict)
    assert verdict.clean


@pytest.mark.parametrize("name", ["central", "eu"])
def test_a_cluster_is_rolled_under_load(replicated_trial, name):
    """Fault 30 (I1, I2, I4, I7): leaders move three times; no record is lost, twice or late, and the hub never ends."""
    trial = replicated_trial
    cluster = trial.sandbox.central if name == "central" else trial.sandbox.edges[name]
    topic = f"eu.{trial.topic}" if name == "central" else trial.topic
    moved = []

    def leads_no_more(broker) -> None:
        leaders = [cluster.leader(topic, partition) for partition in range(3)]
        assert None not in leaders
        assert broker not in leaders, f"{broker.name} leads while it is stopped: the fault did not hit"
        moved.append([leader.node for leader in leaders])

    with supervised(trial) as hub, Steady(trial) as steady:
        steady.reach(timeout=START_S)
        calm = time.monotonic()
        time.sleep(CALM_S)
        before = [cluster.leader(topic, partition).node for partition in range(3)]
        began = time.monotonic()
        cluster.roll(leads_no_more)
        ended = time.monotonic()
        took = steady.reach(timeout=RECOVERY_S)
        steady.stop()
        print(f"{name}: leaders {before}, then {moved}; rolled in {ended - began:.0f} s, all there {took} s later")
        for edge in EDGES:
            print(f"  {edge} calm   {steady.spell(edge, calm, began)}")
            print(f"  {edge} rolled {steady.spell(edge, began, ended)}")
        assert set(before) - set(moved[0]) or set(before) - set(moved[1]) or set(before) - set(moved[2])
    assert hub.ends == []
    trial.drain()
    judged(trial)
