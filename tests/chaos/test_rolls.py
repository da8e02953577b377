"""Rolling restarts: each of three brokers in turn, by a controlled shutdown, while records flow."""

import threading
import time

import pytest

from aggregator.errors import Unreachable
from aggregator.kafka.readers.ends import log_end_offsets, stable_end_offsets
from tests.chaos.rolled_cluster import Watched, rolled_under_load
from tests.chaos.rolls import RECOVERY_S, judged
from tests.chaos.steady_load import EDGES, Steady
from tests.epochs import Epochs

pytestmark = [pytest.mark.brokers]


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
    rolled_under_load(replicated_trial, name)
