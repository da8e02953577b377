"""Rolling restarts: each of three brokers in turn, by a controlled shutdown, while records flow."""

import threading
import time

import pytest

from aggregator.errors import Unreachable
from aggregator.kafka.ends import log_end_offsets, stable_end_offsets
from tests.chaos.rolls import RECOVERY_S, START_S, judged
from tests.chaos.steady import EDGES, Steady
from tests.chaos.supervisor import supervised
from tests.epochs import Epochs

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(900)]

CALM_S = 8.0


class Watched:
    """Leaders of a topic's partitions while its cluster is rolled; none of them is on the broker that is stopped."""

    def __init__(self, cluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self.leaders = [self._now()]

    def _now(self) -> list[int | None]:
        found = [self._cluster.leader(self._topic, partition) for partition in range(3)]
        return [leader.node if leader else None for leader in found]

    def __call__(self, broker) -> None:
        """That this broker leads nothing while it is away."""
        self.leaders.append(self._now())
        assert not {None, broker.node} & set(self.leaders[-1]), f"{broker.name} is away: {self.leaders}"

    def moved(self) -> bool:
        """Whether a partition went to another leader, each time that the leader was stopped."""
        return len({tuple(at) for at in self.leaders}) > 1


class Ends(threading.Thread):
    """Asks a topic's ends again and again, as every part of a hub does.

    Attributes:
        answers: How often both ends were told.
        refusals: What was said instead.
    """

    def __init__(self, cluster, topic: str) -> None:
        super().__init__()
        self.answers, self.refusals = 0, []
        self._cluster, self._partitions = cluster.config, [(topic, partition) for partition in range(3)]
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(0.02):
            try:
                stable_end_offsets(self._cluster, self._partitions)
                log_end_offsets(self._cluster, self._partitions)
                self.answers += 1
            except Unreachable as refusal:
                self.refusals.append(str(refusal))

    def stop(self) -> None:
        """Ask no more."""
        self._over.set()
        self.join()


@pytest.mark.ci
def test_a_slot_goes_on_while_central_is_rolled(replicated_trial):
    """Fault 30 (I1, I4, I7): one slot's transactions, and questions for ends, while central's brokers restart."""
    epochs = Epochs(replicated_trial)
    central = replicated_trial.sandbox.central
    try:
        (plan,) = epochs.plans(drain=False)
        watched = Watched(central, f"eu.{replicated_trial.topic}")
        with Steady(replicated_trial) as steady:
            running = epochs.start(plan)
            steady.reach(timeout=RECOVERY_S)
            ends = Ends(central, f"eu.{replicated_trial.topic}")
            ends.start()
            began = time.monotonic()
            try:
                central.roll(watched)
            finally:
                ends.stop()
            ended = time.monotonic()
            steady.stop()
            steady.reach(timeout=RECOVERY_S)  # with the last that was acknowledged: nothing follows this epoch
            print(f"leaders {watched.leaders}; rolled in {ended - began:.0f} s")
            for edge in EDGES:
                print(f"  {edge} {steady.spell(edge, began, ended)}")
        assert watched.moved(), "nothing moved: the fault did not hit"
        assert ends.answers
        assert not ends.refusals, f"{len(ends.refusals)} of {ends.answers} questions: {ends.refusals[0]}"
        epochs.central.publish(plan.epoch)
        assert running.outcome().result in {"stopped", "superseded"}
    finally:
        epochs.close()
    judged(replicated_trial, lake=False)


@pytest.mark.spark
@pytest.mark.parametrize("name", ["central", "eu"])
def test_a_cluster_is_rolled_under_load(replicated_trial, name):
    """Fault 30 (I1, I2, I4, I7): leaders move three times; no record is lost, twice or late, and the hub never ends."""
    trial = replicated_trial
    cluster = trial.sandbox.central if name == "central" else trial.sandbox.edges[name]
    topic = f"eu.{trial.topic}" if name == "central" else trial.topic
    with supervised(trial) as hub, Steady(trial) as steady:
        steady.reach(timeout=START_S)
        calm = time.monotonic()
        time.sleep(CALM_S)
        watched = Watched(cluster, topic)
        began = time.monotonic()
        cluster.roll(watched)
        ended = time.monotonic()
        took = steady.reach(timeout=RECOVERY_S)
        steady.stop()
        print(f"{name}: leaders {watched.leaders}; rolled in {ended - began:.0f} s, all there {took} s later")
        for edge in EDGES:
            print(f"  {edge} calm   {steady.spell(edge, calm, began)}")
            print(f"  {edge} rolled {steady.spell(edge, began, ended)}")
    assert watched.moved(), "nothing moved: the fault did not hit"
    assert hub.ends == []
    trial.drain()
    judged(trial)
