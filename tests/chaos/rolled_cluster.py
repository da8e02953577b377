"""A cluster of three whose brokers are restarted in turn under a hub and a steady load."""

import time

from tests.chaos.rolls import RECOVERY_S, START_S, judged
from tests.chaos.steady_load import EDGES, Steady
from tests.chaos.supervisor import supervised

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


def rolled_under_load(trial, name: str) -> None:
    """The whole of it, with a hub that runs."""
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
