"""Topics where a cluster does not answer: every silence is an Unreachable that names the topic."""

from concurrent.futures import Future
from threading import Timer
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import admin_answers, topics
from aggregator.kafka.cluster.topic_spec import TopicSpec

CENTRAL = ClusterConfig(bootstrap_servers="central:9092")


class Silent:
    """confluent-kafka's admin client at a controller that has fallen silent since it named the topics."""

    def list_topics(self, **_):
        narrow = SimpleNamespace(error=None, partitions={0: SimpleNamespace(leader=1)})
        return SimpleNamespace(cluster_id="c", brokers={}, topics={"narrow": narrow})

    def create_topics(self, fresh, **_):
        return {one.topic: Future() for one in fresh}

    def create_partitions(self, wider, **_):
        return {one.topic: Future() for one in wider}


@pytest.mark.parametrize("spec", [TopicSpec("absent", 3), TopicSpec("narrow", 3)], ids=lambda spec: spec.name)
@pytest.mark.slow
def test_a_silent_controller_is_unreachable_by_the_name_of_the_topic(monkeypatch, spec):
    """Also where the client itself gives up later than we do: no foreign time-out leaves the room."""
    monkeypatch.setattr(clients, "admin", lambda _: Silent())
    for module in (topics, admin_answers):
        monkeypatch.setattr(module, "TIMEOUT_S", -4.9)
    with pytest.raises(Unreachable, match=f"{spec.name} .*central:9092: no answer"):
        topics.ensure(CENTRAL, [spec])


class Old:
    """The admin client of a cluster that takes no setting but `cleanup.policy`; it remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def list_topics(self, **_):
        return SimpleNamespace(cluster_id="c", brokers={}, topics={})

    def create_topics(self, fresh, *, validate_only, **_):
        self.asked.append((validate_only, {one.topic: one.config for one in fresh}))
        return {one.topic: self._answer(one.config.keys() - {"cleanup.policy"}) for one in fresh}

    def _answer(self, unknown):
        future = Future()
        if unknown:
            future.set_exception(KafkaException(KafkaError(KafkaError.INVALID_CONFIG, f"Unknown: {sorted(unknown)}")))
        else:
            future.set_result(None)
        return future


class Rolled(Old):
    """The same where each question's broker is just being let go of: asked again, it takes a moment to answer."""

    def create_topics(self, fresh, *, validate_only, **_):
        told = super().create_topics(fresh, validate_only=validate_only)
        if len(self.asked) % 2:
            return {name: _failed(KafkaError._DESTROY_BROKER) for name in told}
        slow = {name: Future() for name in told}
        Timer(0.05, lambda: [_copy(told[name], slow[name]) for name in told]).start()
        return slow


def _failed(code):
    future = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def _copy(one, other):
    error = one.exception()
    other.set_result(None) if error is None else other.set_exception(error)


COMPACT, NEWER = {"cleanup.policy": "compact"}, {"newer": "1"}
PLAIN = TopicSpec("plain", 1, COMPACT)
NEW = TopicSpec("new", 1, COMPACT | NEWER, frozenset(NEWER))


@pytest.fixture
def old(monkeypatch):
    """Takes the place of every admin client."""
    made = Old()
    monkeypatch.setattr(clients, "admin", lambda _: made)
    return made


def test_a_dispensable_setting_that_a_cluster_does_not_know_is_left_out(old):
    """What was taken is not asked for again, and nothing else is left out."""
    assert topics.ensure(CENTRAL, [PLAIN, NEW]) == {"plain": 1, "new": 1}
    assert old.asked == [(False, {"plain": COMPACT, "new": COMPACT | NEWER}), (False, {"new": COMPACT})]


def test_a_cluster_that_is_being_rolled_is_waited_for(monkeypatch):
    """What it answers the second time counts, when it comes."""
    rolled = Rolled()
    monkeypatch.setattr(clients, "admin", lambda _: rolled)
    assert topics.ensure(CENTRAL, [NEW]) == {"new": 1}
    assert topics.left_out(CENTRAL, [NEW]) == {"new": frozenset(NEWER)}


def test_what_would_be_left_out_is_told_without_making_anything(old):
    """The question only validates; of topics that would be taken whole nothing is told, nor of those that would not."""
    wrong = TopicSpec("wrong", 1, {"wrong": "1"} | NEWER, frozenset(NEWER))
    assert topics.left_out(CENTRAL, [PLAIN, NEW, wrong]) == {"new": frozenset(NEWER)}
    assert all(validate_only for validate_only, _ in old.asked)
    assert topics.left_out(CENTRAL, [PLAIN]) == {}


def test_a_setting_that_is_needed_is_never_left_out(old):
    """A topic without it would not be what was asked for: it is refused, in the words of the cluster."""
    with pytest.raises(Unreachable, match=r"topic needed cannot be created .*Unknown: \['newer'\]"):
        topics.ensure(CENTRAL, [TopicSpec("needed", 1, COMPACT | NEWER)])
    assert len(old.asked) == 1
