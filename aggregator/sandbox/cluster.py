"""Runs one Kafka cluster of the sandbox: one broker, or three that replicate everything among themselves.

Invariant: the addresses and the data of a cluster stay the same over stop, kill and start, of all brokers or of one.
Three brokers keep three replicas of every topic, and a write with `acks=all` needs two of them.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from aggregator.config.model import ClusterConfig
from aggregator.count_text import format_count
from aggregator.errors import FatalError
from aggregator.kafka.client.clients import consumer
from aggregator.sandbox.broker import START_TIMEOUT_S, STOP_TIMEOUT_S, Broker
from aggregator.sandbox.process import stop_all
from aggregator.sandbox.program import Kafka
from aggregator.sandbox.state import SavedCluster
from aggregator.sandbox.zookeeper import ZooKeeper
from aggregator.threads import map_concurrently

# One broker, or the smallest number that allows one broker to be away.
SIZES = (1, 3)
_ANSWER_S = 10.0
_QUORUM_STATE = Path("__cluster_metadata-0") / "quorum-state"


@dataclass(frozen=True, slots=True)
class Cluster:
    """Runs one Kafka cluster of the sandbox.

    Attributes:
        name: Edge name, or `central`.
        folder: Everything of the cluster: the one broker's files, or a folder per broker.
        brokers: In the order of their nodes, from 1.
        zookeeper: The ZooKeeper, if the release needs one.
    """

    name: str
    folder: Path
    brokers: tuple[Broker, ...]
    zookeeper: ZooKeeper | None = None

    @classmethod
    def of(
        cls, name: str, folder: Path, state: SavedCluster, kafka: Kafka, settings: Mapping[str, Mapping[str, str]]
    ) -> Self:
        """A cluster by what is remembered of it.

        Args:
            name: Edge name, or `central`.
            folder: Everything of the cluster.
            state: Its id and its ports.
            kafka: The program.
            settings: Name of a cluster or of a broker to further broker settings.
        """
        quorum = tuple(ports.controller_port for ports in state.brokers)
        bare = replace(kafka, options=())  # a class archive is made for brokers
        keeper = ZooKeeper(name, folder / "zookeeper", quorum[0], bare) if kafka.release.zookeeper else None
        alone = len(quorum) == 1
        brokers = []
        for node, ports in enumerate(state.brokers, start=1):
            own = name if alone else f"{name}-{node}"
            more = {**settings.get(name, {}), **settings.get(own, {})}
            there = folder if alone else folder / str(node)
            brokers.append(Broker(own, there, node, ports.port, quorum, state.cluster_id, kafka, more, keeper))
        return cls(name, folder, tuple(brokers), keeper)

    @property
    def version(self) -> str:
        """The version of Kafka that the cluster runs."""
        return self.brokers[0].kafka.release.version

    @property
    def bootstrap(self) -> str:
        """`host:port` of every broker, with commas between, for clients."""
        return ",".join(broker.bootstrap for broker in self.brokers)

    @property
    def config(self) -> ClusterConfig:
        """The cluster as our own clients take it."""
        return ClusterConfig(bootstrap_servers=self.bootstrap)

    @property
    def pid(self) -> int | None:
        """Id of the first broker's process that runs."""
        return next((pid for broker in self.brokers if (pid := broker.pid) is not None), None)

    def check_ports(self) -> None:
        """Refuse ports that another process listens on.

        Raises:
            FatalError: names the port.
        """
        for broker in self.brokers:
            broker.check_ports()
        if self.zookeeper:
            self.zookeeper.check_port()

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start all brokers, together, and wait until they are ready. A running broker is left alone.

        Args:
            settings: Broker settings beyond all others, for this start only.

        Raises:
            FatalError: a port is in use, or a broker does not come up.
        """
        if self.zookeeper:
            self.zookeeper.start()
        self._each(lambda broker: broker.spawn(settings))
        self.wait_ready()

    def wait_ready(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every broker is ready and knows all the others.

        Raises:
            FatalError: a broker ended, or does not answer in time; names its log.
        """
        nodes = [broker.node for broker in self.brokers]
        self._each(lambda broker: broker.wait_ready(timeout_s, beside=nodes))

    def stop(self) -> None:
        """End all brokers cleanly; data and addresses stay."""
        stop_clusters([self])

    def kill(self) -> None:
        """End all brokers by SIGKILL, as a power cut would; data and addresses stay, and ZooKeeper runs on."""
        self._each(Broker.kill)

    def freeze(self) -> None:
        """Stop the clock of all brokers (SIGSTOP): their ports accept connections, nothing answers."""
        self._each(Broker.freeze)

    def thaw(self) -> None:
        """Let the frozen brokers continue."""
        self._each(Broker.thaw)

    def broker(self, node: int) -> Broker:
        """The broker of a `node.id`."""
        return self.brokers[node - 1]

    def leader(self, topic: str, partition: int) -> Broker | None:
        """The broker that leads a partition now; None while nobody does.

        Raises:
            FatalError: no broker answers.
        """
        node = self._partitions()[topic, partition].leader
        return self.broker(node) if node > 0 else None

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions; 0 where there is no such topic.

        Raises:
            FatalError: no broker answers.
        """
        return sum(name == topic for name, _ in self._partitions())

    def controller(self) -> Broker | None:
        """The broker that leads the quorum of controllers; None while there is no leader that runs.

        Kafka tells it to no client: a broker answers with any broker that can pass a request on. Each controller keeps
        the newest leader that it knows in its folder.
        """
        known = [json.loads(path.read_text()) for b in self.brokers if (path := b.data / _QUORUM_STATE).exists()]
        if not known:  # ZooKeeper's brokers have no such file
            return None
        newest = max(known, key=lambda state: (state["leaderEpoch"], state["leaderId"]))
        leader = self.broker(newest["leaderId"]) if newest["leaderId"] > 0 else None
        return leader if leader and leader.pid is not None else None

    def lagging(self) -> list[tuple[str, int]]:
        """Topic partitions of which a replica is not in sync.

        Raises:
            FatalError: no broker answers.
        """
        return [at for at, shown in self._partitions().items() if len(shown.isrs) < len(shown.replicas)]

    def wait_in_sync(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until every replica of every topic is in sync, as one does before the next broker is stopped.

        Raises:
            FatalError: not in time; names a partition.
        """
        deadline = time.monotonic() + timeout_s
        while lagging := self.lagging():
            if time.monotonic() > deadline:
                topic, partition = lagging[0]
                raise FatalError(
                    f"{format_count(len(lagging), 'partition')} of {self.name} not in sync after {timeout_s:.0f} s, "
                    f"{topic}-{partition} among them",
                    hint=f"read the ends of the logs in {self.folder}",
                )
            time.sleep(0.2)

    def roll(self, away: Callable[[Broker], None] = lambda _broker: None) -> None:
        """Stop and start each broker in turn by a controlled shutdown, the next when all replicas are in sync again.

        Args:
            away: Called with each broker while it is stopped.

        Raises:
            FatalError: a broker does not come up, or a replica not back in sync.
        """
        for broker in self.brokers:
            broker.stop()
            away(broker)
            broker.start()
            self.wait_in_sync()

    def _partitions(self) -> dict[tuple[str, int], Any]:
        client = consumer(self.config)
        try:
            topics = client.list_topics(timeout=_ANSWER_S).topics
        except Exception:  # noqa: BLE001 - librdkafka's error has no name in this room
            raise FatalError(
                f"no broker of {self.name} answers", hint=f"read the ends of the logs in {self.folder}"
            ) from None
        finally:
            client.close()
        return {(name, number): shown for name, topic in topics.items() for number, shown in topic.partitions.items()}

    def _each(self, act: Callable[[Broker], None]) -> None:
        map_concurrently(lambda at: act(self.brokers[at]), range(len(self.brokers)))


def stop_clusters(clusters: Sequence[Cluster]) -> None:
    """End all processes of clusters: their brokers together, and then what these spoke to."""
    stop_all([broker.daemon for cluster in clusters for broker in cluster.brokers], timeout_s=STOP_TIMEOUT_S)
    keepers = [cluster.zookeeper.daemon for cluster in clusters if cluster.zookeeper]
    stop_all(keepers, timeout_s=STOP_TIMEOUT_S)
