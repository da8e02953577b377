"""Offsets are asked of partitions whose leader the client knows: librdkafka may not survive any other question."""

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.readers import ends, leaders

CENTRAL = ClusterConfig(bootstrap_servers="central:9092")
LED = [("a", 0), ("a", 1)]


class Cluster:
    """An admin client with a cache of leaders, as librdkafka has one; a question beyond it ends the test."""

    def __init__(self):
        self.leaders = {"a": [1, 2]}
        self.hidden = {}
        self.denied = []
        self.looks = self.questions = 0
        self.silent = False
        self._cache = {}

    def list_topics(self, **_):
        self.looks += 1
        if self.silent:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        self._cache = {name: list(led) for name, led in self.leaders.items()}
        topics = {
            name: SimpleNamespace(error=None, partitions={n: SimpleNamespace(leader=one) for n, one in enumerate(led)})
            for name, led in self.leaders.items()
        }
        return SimpleNamespace(cluster_id="c", brokers={}, topics=topics)

    def describe_topics(self, wanted, **_):
        return {name: _future(self.hidden.get(name)) for name in wanted.topic_names}

    def list_offsets(self, asked, **_):
        self.questions += 1
        for at in asked:
            assert self._cache.get(at.topic, {at.partition: -1})[at.partition] >= 0, f"{at}: its leader is not known"
        code = self.denied.pop(0) if self.denied else None
        if code is not None:  # it forgets what a leader has denied
            self._cache = {}
        return {at: _future(code, SimpleNamespace(offset=7, leader_epoch=0, timestamp=0)) for at in asked}


def _future(code, result=None):
    made = Future()
    if code is None:
        made.set_result(result)
    else:
        made.set_exception(KafkaException(KafkaError(code)))
    return made


@pytest.fixture
def cluster(monkeypatch):
    """Takes the place of every admin client."""
    made = Cluster()
    monkeypatch.setattr(clients, "admin", lambda _: made)
    monkeypatch.setattr(ends, "_BRIEF_S", 0.1)
    return made


def test_who_leads_is_asked_once_for_many_questions(cluster):
    """What is known serves: a question in a loop costs no more than it did."""
    for _ in range(5):
        assert ends.stable_end_offsets(CENTRAL, LED) == dict.fromkeys(LED, 7)
    assert (cluster.looks, cluster.questions) == (1, 5)


def test_a_partition_without_a_leader_is_refused_by_name_and_hides_no_other(cluster):
    """It is not asked about, and waited for no longer than the caller can."""
    cluster.leaders["a"] = [1, -1]
    refused = {}
    assert ends.log_offsets(CENTRAL, LED, timeout_s=0.1, refused=refused).keys() == {("a", 0)}
    assert refused == {("a", 1): "offsets of partition 1 cannot be listed: Broker: Leader not available"}
    assert ends.undecided_ranges(CENTRAL, LED, wait_s=0.0).keys() == {("a", 0)}


def test_an_election_is_waited_for(cluster):
    """A leader that comes while somebody waits is found, without a question for each turn of the wait."""
    cluster.leaders["a"] = [1, -1]
    look = cluster.list_topics

    def elected(**more):
        if cluster.looks == 3:
            cluster.leaders["a"] = [1, 2]
        return look(**more)

    cluster.list_topics = elected
    assert ends.stable_end_offsets(CENTRAL, LED) == dict.fromkeys(LED, 7)
    assert cluster.looks == 4


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, "Broker: Topic authorization failed"),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "Broker: Unknown topic or partition"),
        (None, "Broker: Leader not available"),
    ],
)
def test_a_topic_that_is_not_listed_says_why(cluster, code, words):
    """A list of all topics leaves out what may not be seen; the words are the broker's all the same."""
    cluster.hidden["b"] = code
    refused = {}
    ends.stable_end_offsets(CENTRAL, [*LED, ("b", 0)], timeout_s=0.1, refused=refused)
    assert refused == {("b", 0): f"offsets of partition 0 cannot be listed: {words}"}


def test_a_partition_that_was_added_is_looked_for(cluster):
    """What is known may be from before; only what was told since the caller began says that there is none."""
    ends.stable_end_offsets(CENTRAL, LED)
    cluster.leaders["a"] = [1, 2, 3]
    assert ends.stable_end_offsets(CENTRAL, [("a", 2)]) == {("a", 2): 7}
    with pytest.raises(Unreachable, match="Unknown partition"):
        ends.stable_end_offsets(CENTRAL, [("a", 3)])


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._DESTROY_BROKER,
    ],
)
def test_a_leader_that_denies_is_doubted(cluster, code):
    """Who leads is asked anew before the next question: librdkafka forgets topics of which it was denied."""
    ends.stable_end_offsets(CENTRAL, LED)
    cluster.denied = [code] * 3
    assert ends.stable_end_offsets(CENTRAL, LED) == dict.fromkeys(LED, 7)
    assert cluster.looks == 4


def test_a_cluster_that_is_away_is_named_with_its_own_words(cluster):
    """Nobody tells who leads: every partition says why, and nothing is asked."""
    cluster.silent = True
    with pytest.raises(Unreachable, match=r"offsets of 2 partitions at central:9092 .*: Local: Broker transport fail"):
        ends.stable_end_offsets(CENTRAL, LED)
    leaders.refresh(CENTRAL)
    assert cluster.questions == 0
