"""This module describes topics with their ids and partitions, and creates the topics that a hub needs.

Invariant: creation is idempotent, partitions are only ever added, and nothing is deleted here.
"""

import logging
import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    NewPartitions,
    NewTopic,
)

from aggregator.config.model import ClusterConfig
from aggregator.errors import ASK_DOCTOR, FatalError, Unreachable
from aggregator.kafka.cluster.admin_answers import TIMEOUT_S, code, succeeded, with_retry
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata
from aggregator.kafka.cluster.topic_spec import TopicSpec

# The oldest release with topic ids (KIP-516).
OLDEST = "2.8"
# The id that older brokers, and brokers with an older inter-broker protocol, give to every topic: sixteen zero bytes.
_NO_ID = "A" * 22
_WITHOUT_IDS = (
    "its cluster gives topics no ids, so that nothing would tell it from one that is created again; "
    f"it takes Kafka {OLDEST} or newer, with an `inter.broker.protocol.version` that is no older"
)
# The pause between two attempts to create topics while all brokers of the cluster are fenced.
_FENCED_S = 0.5
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its cluster shows it; the id changes when the topic is deleted and created again.

    `leaderless` lists partitions without a leader.
    """

    name: str
    topic_id: str
    partitions: int
    leaderless: tuple[int, ...] = ()


def topic_names(cluster: ClusterConfig, *, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Every topic's name and partition count.

    Raises:
        Unreachable: no broker answers within `timeout_s` seconds.
    """
    return {name: len(led) for name, led in cluster_metadata(cluster, timeout_s=timeout_s).leaders.items()}


def partition_count(cluster: ClusterConfig, topic: str) -> int:
    """Partitions of one topic, 0 where it does not exist.

    Raises:
        Unreachable: no broker answers.
    """
    return topic_names(cluster).get(topic, 0)


def described(cluster: ClusterConfig, names: Collection[str]) -> dict[str, Topic]:
    """Ids and partition counts; a topic that is gone is left out.

    Raises:
        Unreachable: no answer.
    """
    found, refused = described_each(cluster, names)
    for name, why in refused.items():
        raise Unreachable(f"{name} at {cluster.bootstrap_servers}: {why}", hint=ASK_DOCTOR)
    return found


def described_each(cluster: ClusterConfig, names: Collection[str]) -> tuple[dict[str, Topic], dict[str, str]]:
    """Describe each topic separately. Returns the described topics, and the reason for each other topic; deleted topics
    are in neither.

    One without an id is not described: nothing would tell it from another one that is made under its name.
    """
    found: dict[str, Topic] = {}
    refused: dict[str, str] = {}
    if not names:
        return found, refused
    wanted = TopicCollection(list(names))
    futures = with_retry(cluster, lambda client: client.describe_topics(wanted, request_timeout=TIMEOUT_S))
    for name, future in futures.items():
        try:
            topic = future.result(TIMEOUT_S + 5)
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_AUTHORIZATION_FAILED):
                refused[name] = error.args[0].str()
        except TimeoutError:
            refused[name] = "no answer"
        else:
            led = {one.id for one in topic.partitions if one.leader is not None and one.leader.id >= 0}
            leaderless = tuple(sorted({one.id for one in topic.partitions} - led))
            if (topic_id := str(topic.topic_id)) == _NO_ID:
                refused[name] = _WITHOUT_IDS
            else:
                found[name] = Topic(name, topic_id, len(topic.partitions), leaderless)
    return found, refused


def require_ids(cluster: ClusterConfig, names: Collection[str]) -> None:
    """Refuse a cluster that gives topics no ids, as a look at one of its topics shows.

    Args:
        cluster: Central.
        names: Topics that it has; without any, nothing is known.

    Raises:
        FatalError: it gives none.
    """
    _, refused = described_each(cluster, sorted(names)[:1])
    if _WITHOUT_IDS in refused.values():
        raise FatalError(
            f"central at {cluster.bootstrap_servers} gives topics no ids, which the hub tells their lives apart by",
            hint=f"it takes Kafka {OLDEST} or newer, with an `inter.broker.protocol.version` that is no older",
        )


def lacking(have: Mapping[str, int], specs: Collection[TopicSpec]) -> tuple[list[TopicSpec], list[TopicSpec]]:
    """The topics to create, and those that need more partitions.

    Args:
        have: Partition counts of the topics that exist.
        specs: What must be there.
    """
    missing = [spec for spec in specs if spec.name not in have]
    return missing, [spec for spec in specs if 0 < have.get(spec.name, 0) < spec.partitions]


def ensure(cluster: ClusterConfig, specs: Collection[TopicSpec], *, replication_factor: int = -1) -> dict[str, int]:
    """Create what is missing and add partitions where there are too few; how many each has then.

    A dispensable setting that the cluster does not know is left out.

    Raises:
        Unreachable: the cluster refused or did not answer; names the topic.
    """
    have = topic_names(cluster)
    missing, short = lacking(have, specs)
    if missing:
        created, bare = _created(cluster, missing, replication_factor)
        _all_settled(created, cluster, "created", "Create")
        for spec in bare:
            log.info("%s is made without %s, unknown to the cluster", spec.name, ", ".join(sorted(spec.dispensable)))
    if short:
        wider = [NewPartitions(s.name, s.partitions) for s in short]
        widened = with_retry(cluster, lambda client: client.create_partitions(wider, request_timeout=TIMEOUT_S))
        _all_settled(widened, cluster, "widened", "Alter")
    return {spec.name: max(spec.partitions, have.get(spec.name, 0)) for spec in specs}


def left_out(
    cluster: ClusterConfig, specs: Collection[TopicSpec], *, replication_factor: int = -1
) -> dict[str, frozenset[str]]:
    """Which settings topics would be made without, by topic name; asked of the cluster, and nothing is made.

    Args:
        cluster: Where.
        specs: Topics that are missing.
        replication_factor: They would be made with.

    Returns:
        Nothing of topics that would be made with all settings, or not at all.
    """
    asked = [spec for spec in specs if spec.dispensable]
    if not asked:
        return {}
    _, bare = _created(cluster, asked, replication_factor, validate_only=True)
    return {spec.name: spec.dispensable for spec in bare}


def _created(
    cluster: ClusterConfig, specs: Collection[TopicSpec], replication_factor: int, *, validate_only: bool = False
) -> "tuple[dict[str, Future[Any]], list[TopicSpec]]":
    """The answers by topic name, and those topics that are taken without their dispensable settings alone.

    A broker's answer tells only in words which setting it does not know. So it is asked again without them.
    """

    def ask_once(wanted: Collection[TopicSpec]) -> "dict[str, Future[Any]]":
        fresh = [NewTopic(s.name, s.partitions, replication_factor, config=dict(s.settings)) for s in wanted]
        return with_retry(
            cluster,
            lambda client: client.create_topics(fresh, request_timeout=TIMEOUT_S, validate_only=validate_only),
        )

    def ask(wanted: Collection[TopicSpec]) -> "dict[str, Future[Any]]":
        answers, end_s = ask_once(wanted), time.monotonic() + TIMEOUT_S
        while (fenced := [s for s in wanted if _is_fenced(answers[s.name])]) and time.monotonic() < end_s:
            time.sleep(_FENCED_S)
            answers |= ask_once(fenced)
        return answers

    answers = ask(specs)
    refused = [s for s in specs if s.dispensable and code(answers[s.name]) == KafkaError.INVALID_CONFIG]
    if not refused:
        return answers, []
    again = ask([spec.bare() for spec in refused])
    return answers | again, [spec for spec in refused if succeeded(again[spec.name])]


def _is_fenced(answer: "Future[Any]") -> bool:
    """Whether no broker may take a replica now, as for seconds after all of them stood still; only words tell."""
    if code(answer) != KafkaError.INVALID_REPLICATION_FACTOR:
        return False
    error = answer.exception(0)
    return isinstance(error, KafkaException) and "fenced" in error.args[0].str()


def partitions(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Every partition of topics with so many."""
    return [(name, partition) for name, count in counts.items() for partition in range(count)]


def _all_settled(futures: dict[str, "Future[Any]"], cluster: ClusterConfig, done: str, right: str) -> None:
    for name, future in futures.items():
        try:
            future.result(TIMEOUT_S + 5)
        except (KafkaException, TimeoutError) as failure:
            error = failure.args[0] if isinstance(failure, KafkaException) else None
            if error is not None and error.code() in (KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_PARTITIONS):
                continue  # another process was quicker
            denied = error is not None and error.code() in _DENIED
            lacks = f"the hub's principal lacks {right} on it; " if denied else ""
            raise Unreachable(
                f"topic {name} cannot be {done} at {cluster.bootstrap_servers}: "
                f"{lacks}{error.str() if error else 'no answer'}",
                hint="aggregator acls print names every right; or let somebody else do it"
                if denied
                else "check the broker",
            ) from None
