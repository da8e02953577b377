"""Reading from followers (`client.rack`): records come from the broker of the hub's rack, and every rule still holds.

Three brokers of an edge stand in three racks, and each hands readers on to the replica in theirs. Leaders are elsewhere
where a test says so; who serves is told by librdkafka's own counts of bytes by broker.
"""

import json
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import NewTopic

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.sandbox.sandbox import Sandbox
from tests.chaos.recreations import recreated
from tests.chaos.rolled_cluster import rolled_under_load
from tests.chaos.unclean_election import unclean_election
from tests.trial import Trial, settle, wait_for

pytestmark = [pytest.mark.brokers]

SELECTOR = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
FAR, NEAR = 1, 3  # nodes: the leader's, and that of the hub's rack
TRIES = 8
COUNT = 3_000


@pytest.fixture(scope="module")
def replicated(tmp_path_factory):
    """An edge of three brokers in racks of their own, beside one broker for each of the others."""
    racks = {f"eu-{node}": {"broker.rack": f"rack-{node}"} for node in (1, 2, 3)}
    sandbox = Sandbox.up(
        tmp_path_factory.mktemp("racks"), ("eu", "us"), brokers={"eu": 3}, settings={"eu": SELECTOR, **racks}
    )
    yield sandbox
    sandbox.down()


def near(trial) -> Trial:
    """The hub stands in a follower's rack."""
    trial.settings["edges"]["eu"]["consumer"] = {"client.rack": f"rack-{NEAR}"}
    trial.write()
    return trial


@pytest.fixture
def led_afar(replicated, tmp_path):
    """A topic that another rack's broker leads, with records; and the edge as a hub in the near rack reads it."""
    trial = Trial(replicated, tmp_path)
    placed = [[FAR, 2, NEAR]] * 3
    settle(trial.admin("eu").create_topics([NewTopic(trial.topic, 3, replica_assignment=placed)]))
    trial.produce("eu", COUNT)
    replicated.edges["eu"].wait_in_sync()
    servers = replicated.edges["eu"].bootstrap
    yield trial, ClusterConfig(bootstrap_servers=servers, consumer={"client.rack": f"rack-{NEAR}"})
    trial.close()


class Served:
    """Bytes by broker, as a client counts them; `options` make it tell."""

    def __init__(self):
        self.bytes = Counter()

    @property
    def options(self):
        """Properties of the client."""
        return {"statistics.interval.ms": 100, "stats_cb": self.take}

    def take(self, text):
        """One report."""
        known = json.loads(text)["brokers"].values()
        self.bytes = Counter({one["nodeid"]: one["rxbytes"] for one in known if one["nodeid"] > 0})

    def fetched(self, since=None):
        """The broker that sent most since then."""
        return (self.bytes - (since or Counter())).most_common(1)[0][0]


def test_records_come_from_the_follower_in_the_hub_s_rack(led_afar):
    """The reader's own witness, the broker that served a poll, is the follower; without a rack it is the leader."""
    trial, cluster = led_afar
    for config, node in ((cluster, NEAR), (cluster.model_copy(update={"consumer": {}}), FAR)):
        reader = EdgeReader(config, buffer_bytes=1 << 24)
        served, count = Counter(), 0
        try:
            reader.assign({(trial.topic, partition): StartPosition(0) for partition in range(3)})
            deadline = time.monotonic() + 60
            while count < COUNT and time.monotonic() < deadline:
                polled = reader.poll(500, 0.1)
                count += sum(map(len, polled.chunks))
                served.update(broker for broker, topics in polled.served.items() if topics)
        finally:
            reader.close()
        assert count == COUNT
        assert set(served) == {node}


def test_who_asks_what_a_log_holds_asks_its_leader(led_afar):
    """A cut is looked for at the leader: a follower may not have been cut yet."""
    trial, cluster = led_afar
    for make, node in ((clients.consumer, FAR), (clients.uncommitted_consumer, FAR)):
        served = Served()
        client = make(cluster, **served.options)
        try:
            client.assign([TopicPartition(trial.topic, partition, 0) for partition in range(3)])
            found = 0
            deadline = time.monotonic() + 60
            while found < COUNT and time.monotonic() < deadline:
                found += sum(message.error() is None for message in client.consume(500, 0.1))
            wait_for(
                lambda c=client, s=served: (c.poll(0.1), sum(s.bytes.values()) > 50_000)[1], timeout=20, what="bytes"
            )
        finally:
            client.close()
        assert served.fetched() == node


@pytest.mark.spark
def test_a_topic_created_again_at_once_is_read_once_from_followers(replicated_trial):
    """Fault 14 (I1, I2, I4): a follower, too, shows a new topic before it serves a record of it."""
    recreated(near(replicated_trial), TRIES)


@pytest.mark.spark
def test_brokers_are_rolled_under_a_reader_of_followers(replicated_trial):
    """Fault 30 (I1, I2, I4): who is read from goes and comes back; no record is lost or twice."""
    rolled_under_load(near(replicated_trial), "eu")


@pytest.mark.spark
@pytest.mark.parametrize("rack", [1, 2])
def test_an_unclean_election_is_a_gap_for_a_reader_of_followers(replicated, tmp_path, rack):
    """Fault 28 and 30: the rack of who led first and comes back cut, and of who leads after it."""
    trial = Trial(replicated, tmp_path)
    trial.settings["edges"]["eu"]["consumer"] = {"client.rack": f"rack-{rack}"}
    trial.write()
    unclean_election(trial, grows_again=True)
