"""A cluster whose only broker is fenced now and then, as after it stood still: it names no controller meanwhile."""

import time

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.cluster.topics import ensure, topic_names
from aggregator.sandbox.sandbox import Sandbox

pytestmark = [pytest.mark.ci, pytest.mark.brokers]
# Of every three seconds it is fenced for two: a session lasts for one, and a heartbeat comes every third.
FENCED = {"broker.session.timeout.ms": "1000", "broker.heartbeat.interval.ms": "3000"}
TOPICS = 8


@pytest.fixture
def cluster(tmp_path):
    """The cluster."""
    sandbox = Sandbox.up(tmp_path, ("eu",), settings={"eu": FENCED})
    yield ClusterConfig(bootstrap_servers=sandbox.edges["eu"].bootstrap)
    sandbox.down()


def test_topics_are_created_where_the_controller_is_unknown_for_a_moment(cluster):
    """Waited for until there is one: librdkafka asks once only, and then for as long as its question may take."""
    refusals = []
    for number in range(TOPICS):
        time.sleep(0.3)
        try:
            ensure(cluster, [TopicSpec(f"topic-{number}", 1)])
        except Unreachable as refused:
            refusals.append(refused.message)
    assert all("fenced" in refusal for refusal in refusals), refusals
    made = {name for name in topic_names(cluster) if name.startswith("topic-")}
    assert len(made) == TOPICS - len(refusals) >= TOPICS // 2
