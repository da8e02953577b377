"""Topics where a cluster does not answer: every silence is an Unreachable that names the topic."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka import clients, topics
from aggregator.kafka.topic_spec import TopicSpec

CENTRAL = ClusterConfig(bootstrap_servers="central:9092")


class Silent:
    """confluent-kafka's admin client at a controller that has fallen silent since it named the topics."""

    def list_topics(self, **_):
        return SimpleNamespace(topics={"narrow": SimpleNamespace(error=None, partitions={0: None})})

    def create_topics(self, fresh, **_):
        return {one.topic: Future() for one in fresh}

    def create_partitions(self, wider, **_):
        return {one.topic: Future() for one in wider}


@pytest.mark.parametrize("spec", [TopicSpec("absent", 3), TopicSpec("narrow", 3)], ids=lambda spec: spec.name)
def test_a_silent_controller_is_unreachable_by_the_name_of_the_topic(monkeypatch, spec):
    """Also where the client itself gives up later than we do: no foreign time-out leaves the room."""
    monkeypatch.setattr(clients, "admin", lambda _: Silent())
    monkeypatch.setattr(topics, "TIMEOUT_S", -4.9)
    with pytest.raises(Unreachable, match=f"{spec.name} .*central:9092: no answer"):
        topics.ensure(CENTRAL, [spec])
