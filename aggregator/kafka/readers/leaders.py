"""This module knows which partitions have a leader, so that no offset is asked for where there is none.

If librdkafka does not know every leader that a request needs, it waits for metadata on the calling thread, and answers
on another thread. Metadata that arrive at once free memory that the first thread still uses, and the process crashes.
The fault lies in `rd_kafka_topic_partition_list_query_leaders_async`, in versions up to 2.15 at least. A metadata
request for all topics fills the library's cache and avoids this.

Invariant: a partition that `leaderless` does not return is led by a broker that is in that cache.
"""

import functools
import time
from collections.abc import Collection, Mapping
from typing import NamedTuple
from weakref import WeakKeyDictionary

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.kafka.client import clients
from aggregator.kafka.cluster.admin_answers import code
from aggregator.kafka.cluster.cluster_metadata import leaders_of

# librdkafka caches a leader for `metadata.max.age.ms`, 15 minutes. The second number is the least time between looks.
_LASTS_S, _AGAIN_S = 60.0, 0.1


class _LeaderCache(NamedTuple):
    """A cluster's answer about the leaders of all its topics.

    Attributes:
        asked_s: When it was asked, on the clock of `time.monotonic`.
        leaders: Of each topic and each of its partitions, whether a broker leads it.
        doubted: Topics of which a leader denied that it is one, or did not answer: librdkafka has forgotten them.
    """

    asked_s: float
    leaders: Mapping[str, tuple[bool, ...]]
    doubted: frozenset[str] = frozenset()

    def leads(self, tp: Partition) -> bool:
        """Whether a broker leads the partition, and librdkafka knows it."""
        topic, number = tp
        led = self.leaders.get(topic, ())
        return topic not in self.doubted and number < len(led) and led[number]

    def serves(self, partitions: Collection[Partition], *, since_s: float, now_s: float) -> bool:
        """Whether the cached answer is enough: all have a leader, or a missing leader was reported just now."""
        age_s = now_s - self.asked_s
        if all(map(self.leads, partitions)):
            return age_s <= _LASTS_S
        return age_s <= _AGAIN_S and self.asked_s >= since_s


@functools.cache
def _pictures() -> WeakKeyDictionary[AdminClient, _LeaderCache]:
    return WeakKeyDictionary()


def leaderless(
    cluster: ClusterConfig, partitions: Collection[Partition], *, since_s: float, timeout_s: float
) -> dict[Partition, KafkaError]:
    """The partitions of which no offset can be asked for now, and why.

    Args:
        cluster: The cluster of the partitions.
        partitions: The partitions to ask about.
        since_s: When the caller began, on the clock of `time.monotonic`. A partition counts as without a leader only
            if that was told later.
        timeout_s: How long the cluster is waited for.
    """
    client = clients.admin(cluster)
    known = _pictures().get(client)
    if known is None or not known.serves(partitions, since_s=since_s, now_s=time.monotonic()):
        try:
            known = _fetch_leaders(client, timeout_s)
        except KafkaException as error:  # no broker answers: no partition counts as led
            return dict.fromkeys(partitions, error.args[0])
    lacking = [at for at in partitions if not known.leads(at)]
    missing = sorted({topic for topic, _ in lacking} - known.leaders.keys() - known.doubted)
    refused = _ask_codes(client, missing, timeout_s) if missing else {}
    return {at: KafkaError(refused.get(at[0]) or _why(known, at)) for at in lacking}


def refresh(cluster: ClusterConfig, timeout_s: float = 1.0) -> None:
    """Refresh the leaders that the kept admin client knows.

    An outdated leader epoch alone does not make it ask for minutes. Nor does a deposed leader that goes on to answer.
    """
    try:
        _fetch_leaders(clients.admin(cluster), timeout_s)
    except KafkaException:
        _pictures().pop(clients.admin(cluster), None)  # the next question reports the fault


def invalidate(cluster: ClusterConfig, topic: str) -> None:
    """Note that a leader of the topic refused or did not answer. Who leads is asked before the next question."""
    client = clients.admin(cluster)
    if known := _pictures().get(client):
        _pictures()[client] = known._replace(doubted=known.doubted | {topic})


def _fetch_leaders(client: AdminClient, timeout_s: float) -> _LeaderCache:
    """Ask for the leaders of all topics, and keep the answer for the client.

    Raises:
        KafkaException: no broker answers.
    """
    asked_s = time.monotonic()
    _pictures()[client] = made = _LeaderCache(asked_s, leaders_of(client.list_topics(timeout=timeout_s)))
    return made


def _ask_codes(client: AdminClient, topics: list[str], timeout_s: float) -> dict[str, int | None]:
    """Why a cluster tells nothing of topics: a list of all leaves out what may not be seen."""
    futures = client.describe_topics(TopicCollection(topics), request_timeout=timeout_s)
    return {topic: code(future) for topic, future in futures.items()}


def _why(known: _LeaderCache, tp: Partition) -> int:
    """The code that says why a partition is not led."""
    topic, number = tp
    if number >= len(known.leaders.get(topic, (True,) * (number + 1))):
        return int(KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - public code
    return int(KafkaError.LEADER_NOT_AVAILABLE)
