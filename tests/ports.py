"""The two implementations of a slot's ports, side by side: the simulated clusters, and real brokers.

A contract is written once and holds for both. What a world is made to do here, it does through plain clients, or by
the simulated clusters' own means; what is looked at is looked at the same way.
"""

import time
import uuid
from collections.abc import Callable

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from aggregator.config.model import HubConfig
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from aggregator.state.internal_topics import internal_topics
from aggregator.state.names import HubNames
from tests.simulation.cluster import Central, Faults
from tests.simulation.edge import EDGE, PARTITIONS, TOPIC, Edge, EdgeFaults
from tests.simulation.protocol import protocol
from tests.simulation.scheduler import Scheduler
from tests.simulation.simulated_ports import Logs, SimSlotPorts, SimWriter
from tests.trial import read_all, settle

_STEPS = 100_000


class Simulated:
    """Simulated clusters, without faults; a test's body is an actor there."""

    def __init__(self, seed: int) -> None:
        self._scheduler = Scheduler(seed)
        self._cluster, self._edge = Central(self._scheduler, Faults()), Edge(self._scheduler, EdgeFaults())
        self._scheduler.environment = self._cluster.work
        self.names = HubNames("sim")
        self.edge, self.topic, self.central = EDGE, TOPIC, f"{EDGE}.{TOPIC}"
        logs = Logs(self._cluster, self.names, 1, protocol())
        self.ports = SimSlotPorts(logs, self._edge, self._edge.log.topic_id, 0)

    def play(self, body: Callable[[], None]) -> None:
        """Run the body among the brokers' own steps."""
        actor = self._scheduler.spawn("test", body)
        self._scheduler.run(lambda: not actor.alive, steps=_STEPS)

    def other_writer(self) -> SimWriter:
        """A producer of somebody else's."""
        return SimWriter(self._cluster, "somebody else")

    def refuse(self) -> None:
        """From now on central refuses what is written for an edge's topic, for good."""
        self._cluster.faults = Faults(for_good=1.0)

    def accept(self) -> None:
        """As before."""
        self._cluster.faults = Faults()

    def visible(self, partition: int) -> list[bytes | None]:
        """What a reader with read_committed isolation sees of a partition of central."""
        return [entry.value for _, entry in self._cluster.committed((self.central, partition))]

    def append(self, partition: int, count: int) -> list[bytes | None]:
        """Write records at the edge."""
        before = len(self._edge.log.partitions[partition])
        for _ in range(count):
            self._edge.append(partition)
        return [one.value for one in self._edge.log.partitions[partition][before:]]

    def append_marker(self, partition: int) -> None:
        """Something at the edge's end that no reader sees."""
        self._edge.append(partition, marker=True)

    def delete_before(self, partition: int, offset: int) -> None:
        """What retention does."""
        self._edge.truncate(partition, offset)

    def recreate(self) -> None:
        """Delete the edge's topic and create it again."""
        self._edge.recreate()

    def close(self) -> None:
        return


class Brokers:
    """Real clusters, with topics of their own for each test."""

    def __init__(self, sandbox) -> None:
        unique = uuid.uuid4().hex[:8]
        self.names = HubNames(f"ports{unique}")
        self.edge, self.topic, self.central = "eu", f"orders-{unique}", f"eu.orders-{unique}"
        self._bootstrap, self._edge_bootstrap = sandbox.central.bootstrap, sandbox.edges["eu"].bootstrap
        config = HubConfig.model_validate(
            {
                "hub": self.names.hub,
                "central": {"bootstrap_servers": self._bootstrap},
                "edges": {"eu": {"bootstrap_servers": self._edge_bootstrap}},
            }
        )
        self._edge_admin = AdminClient({"bootstrap.servers": self._edge_bootstrap})
        specs = [*internal_topics(self.names, 1), TopicSpec(self.central, 4, {"max.message.bytes": "1000"})]
        topics.ensure(config.central, specs)
        self._create()
        self.ports = KafkaSlotPorts(config, self.names, 0, batch_bytes=1_000_000)
        self._producer = Producer({"bootstrap.servers": self._edge_bootstrap})
        self._made: list = []

    def _create(self) -> None:
        settle(self._edge_admin.create_topics([NewTopic(self.topic, PARTITIONS, 1)]))

    def play(self, body: Callable[[], None]) -> None:
        """Run the body."""
        body()

    def other_writer(self):
        """A producer of somebody else's."""
        return _Plain(self._bootstrap, f"somebody-else-{self.names.hub}")

    def refuse(self) -> None:
        """Nothing to be done: a long value is refused for good by the topic's setting."""

    def accept(self) -> None:
        """As before."""

    def visible(self, partition: int) -> list[bytes | None]:
        """What a reader with read_committed isolation sees of a partition of central."""
        return [m.value() for m in read_all(self._bootstrap, self.central) if m.partition() == partition]

    def append(self, partition: int, count: int) -> list[bytes | None]:
        """Write records at the edge."""
        values: list[bytes | None] = [uuid.uuid4().bytes for _ in range(count)]
        for value in values:
            self._producer.produce(self.topic, value, partition=partition)
        assert self._producer.flush(10) == 0
        return values

    def append_marker(self, partition: int) -> None:
        """Something at the edge's end that no reader sees."""
        producer = Producer({"bootstrap.servers": self._edge_bootstrap, "transactional.id": uuid.uuid4().hex})
        producer.init_transactions(10)
        producer.begin_transaction()
        producer.produce(self.topic, b"never seen", partition=partition)
        producer.flush(10)
        producer.abort_transaction(10)

    def delete_before(self, partition: int, offset: int) -> None:
        """What retention does."""
        settle(self._edge_admin.delete_records([TopicPartition(self.topic, partition, offset)]))

    def recreate(self) -> None:
        """Delete the edge's topic and create it again."""
        settle(self._edge_admin.delete_topics([self.topic]))
        deadline = time.monotonic() + 15
        while self.topic in self._edge_admin.list_topics(timeout=10).topics:
            assert time.monotonic() < deadline, "the topic is not deleted"
            time.sleep(0.1)
        self._create()

    def close(self) -> None:
        self.ports.close()


class _Plain:
    """A transactional producer of confluent-kafka's."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name})

    def open(self) -> None:
        self._producer.init_transactions(10)

    def begin(self) -> None:
        self._producer.begin_transaction()

    def produce(self, topic, key, value, *, partition) -> None:
        self._producer.produce(topic, value, key, partition=partition)
        self._producer.flush(10)

    def commit(self) -> None:
        self._producer.commit_transaction(10)
