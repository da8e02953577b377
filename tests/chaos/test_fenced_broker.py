"""A cluster whose only broker is fenced now and then, as after it stood still: it names no controller meanwhile."""

import time

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.cluster.topics import ensure, topic_names
from aggregator.sandbox.sandbox import Sandbox
from tests.trial import wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]
# Of every three seconds it is fenced for one: a session lasts for two, and a heartbeat comes every third. Fenced for
# longer it misses the heartbeats that end it, and no client connects.
FENCED = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "3000"}
TOPICS = 32


@pytest.fixture
def cluster(tmp_path):
    """The cluster."""
    sandbox = Sandbox.up(tmp_path, ("eu",), settings={"eu": FENCED})
    yield ClusterConfig(bootstrap_servers=sandbox.edges["eu"].bootstrap)
    sandbox.down()


def test_topics_are_created_where_the_controller_is_unknown_for_a_moment(cluster):
    """Waited for until there is one, and until a broker may take a replica; librdkafka asks for a controller once."""
    for number in range(TOPICS):
        time.sleep(0.3)
        ensure(cluster, [TopicSpec(f"topic-{number}", 1)])
    made = {f"topic-{number}" for number in range(TOPICS)}
    wait_for(lambda: made <= topic_names(cluster).keys(), timeout=20, what="the topics")
