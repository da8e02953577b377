"""Topics: what exists, with ids and settings, and the creation of what a hub needs.

Invariant: creation is idempotent, partitions are only ever added, and nothing is deleted here.
"""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from aggregator.config.model import ClusterConfig
from aggregator.errors import Failed, Unreachable
from aggregator.kafka import clients
from aggregator.kafka.topic_spec import TopicSpec, inherited

TIMEOUT_S = 10.0
# A broker answers a creation before every broker, itself included, has the topic in its metadata.
_PROPAGATION_S = 5.0
# Ids of topics are as old (KIP-516).
OLDEST = "2.8"
# What older brokers, and those that speak an older protocol among themselves, tell of every topic: sixteen zeros.
_NO_ID = "A" * 22
_WITHOUT_IDS = (
    "its cluster gives topics no ids, so that nothing would tell it from one that is created again; "
    f"it takes Kafka {OLDEST} or newer, with an `inter.broker.protocol.version` that is no older"
)
_DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_OF_THE_TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
log = logging.getLogger(__name__)
_Subject = TypeVar("_Subject")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as its cluster shows it; the id changes when the topic is deleted and created again.

    Nobody answers for the partitions of `leaderless`.
    """

    name: str
    topic_id: str
    partitions: int
    leaderless: tuple[int, ...] = ()


def _result(future: "Future[Any]", what: str, cluster: ClusterConfig) -> Any:
    try:
        return future.result(TIMEOUT_S + 5)
    except (KafkaException, TimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise Unreachable(
            f"{what} at {cluster.bootstrap_servers}: {why}",
            hint="check that the broker runs and the principal's rights",
        ) from None


def _code(future: "Future[Any]") -> int | None:
    """By which code a question was refused; None where it was answered, or not at all."""
    try:
        error = future.exception(TIMEOUT_S + 5)
    except TimeoutError:
        return None
    code: int | None = error.args[0].code() if isinstance(error, KafkaException) else None
    return code


def _succeeded(future: "Future[Any]") -> bool:
    """Whether the cluster did what it was asked."""
    try:
        return future.exception(TIMEOUT_S + 5) is None
    except TimeoutError:
        return False


def _asked(ask: "Callable[[], dict[_Subject, Future[Any]]]") -> "dict[_Subject, Future[Any]]":
    """Answers to a question that may be asked twice: it is, where the broker that had it is gone from the metadata.

    So it is with each broker of a cluster that is rolled; librdkafka lets go of it and of what it was asked.
    """
    futures = ask()
    gone = any(_code(future) == KafkaError._DESTROY_BROKER for future in futures.values())  # noqa: SLF001 - public code
    return ask() if gone else futures


def leaders(cluster: ClusterConfig, *, timeout_s: float = TIMEOUT_S) -> dict[str, tuple[bool, ...]]:
    """Every topic's name, and of each of its partitions whether a broker leads it.

    Raises:
        Unreachable: no broker answers within `timeout_s` seconds.
    """
    return {
        name: tuple(topic.partitions[number].leader >= 0 for number in sorted(topic.partitions))
        for name, topic in _listed(cluster, timeout_s).items()
    }


def topic_names(cluster: ClusterConfig, *, timeout_s: float = TIMEOUT_S) -> dict[str, int]:
    """Every topic's name and partition count.

    Raises:
        Unreachable: no broker answers within `timeout_s` seconds.
    """
    return {name: len(topic.partitions) for name, topic in _listed(cluster, timeout_s).items()}


def _listed(cluster: ClusterConfig, timeout_s: float) -> dict[str, Any]:
    return {name: topic for name, topic in _metadata(cluster, timeout_s).topics.items() if topic.error is None}


def _metadata(cluster: ClusterConfig, timeout_s: float) -> Any:
    try:
        return clients.admin(cluster).list_topics(timeout=timeout_s)
    except KafkaException as error:
        shut = clients.shut_out(cluster)
        clients.renew_admin(cluster)
        raise Unreachable(
            f"no broker {'lets the hub in' if shut else 'answers'} at {cluster.bootstrap_servers}: "
            f"{shut or error.args[0].str()}",
            hint="check `client:` of this cluster: docs/connections.md"
            if shut
            else "check the address, the network and whether the broker runs",
        ) from None


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
        raise Unreachable(f"{name} at {cluster.bootstrap_servers}: {why}", hint="check the broker")
    return found


def described_each(cluster: ClusterConfig, names: Collection[str]) -> tuple[dict[str, Topic], dict[str, str]]:
    """Topics by themselves: those that are described, and why others are not; one that is gone is in neither.

    One without an id is not described: nothing would tell it from another one that is made under its name.
    """
    found: dict[str, Topic] = {}
    refused: dict[str, str] = {}
    if not names:
        return found, refused
    wanted = TopicCollection(list(names))
    futures = _asked(lambda: clients.admin(cluster).describe_topics(wanted, request_timeout=TIMEOUT_S))
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
        Failed: it gives none.
    """
    _, refused = described_each(cluster, sorted(names)[:1])
    if _WITHOUT_IDS in refused.values():
        raise Failed(
            f"central at {cluster.bootstrap_servers} gives topics no ids, which the hub tells their lives apart by",
            hint=f"it takes Kafka {OLDEST} or newer, with an `inter.broker.protocol.version` that is no older",
        )


def settings(cluster: ClusterConfig, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Effective topic settings by topic name. A topic that was just created is asked for until its broker knows it.

    Raises:
        Unreachable: no answer, or no right to describe configs.
    """
    return {name: _entries(future, name, cluster) for name, future in _asked_settings(cluster, names).items()}


def topic_defaults(cluster: ClusterConfig) -> dict[str, str]:
    """What a topic gets from the brokers where nobody says anything; empty where we may not ask for it.

    Raises:
        Unreachable: no broker answers.
    """
    brokers = _metadata(cluster, TIMEOUT_S).brokers
    resource = ConfigResource(ResourceType.BROKER, str(min(brokers, default=0)))
    asked = _asked(lambda: clients.admin(cluster).describe_configs([resource], request_timeout=TIMEOUT_S))
    try:
        told = _entries(asked[resource], "settings of a broker", cluster)
    except Unreachable:
        return {}
    return inherited(told)


class Settings(NamedTuple):
    """Settings of a topic.

    Attributes:
        values: All that are in effect.
        own: Names of those that were given to the topic itself; it has the others from its brokers.
    """

    values: dict[str, str]
    own: frozenset[str]


def settings_each(cluster: ClusterConfig, names: Collection[str]) -> tuple[dict[str, Settings], dict[str, str]]:
    """Settings of topics by themselves: those that are told, and why others are not."""
    found: dict[str, Settings] = {}
    refused: dict[str, str] = {}
    for name, future in _asked_settings(cluster, names).items():
        try:
            told = _result(future, f"settings of {name}", cluster)
        except Unreachable as error:
            refused[name] = error.message
        else:
            own = frozenset(key for key, entry in told.items() if entry.source == _OF_THE_TOPIC)
            found[name] = Settings({key: entry.value for key, entry in told.items()}, own)
    return found, refused


def change_settings(cluster: ClusterConfig, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Give topics these settings, and leave their others alone; why some do not take them, by topic.

    Args:
        cluster: Whose.
        wanted: Settings by topic.
    """
    resources = [
        ConfigResource(
            ResourceType.TOPIC,
            name,
            incremental_configs=[
                ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in given.items()
            ],
        )
        for name, given in wanted.items()
    ]
    refused: dict[str, str] = {}
    if resources:
        asked = _asked(lambda: clients.admin(cluster).incremental_alter_configs(resources, request_timeout=TIMEOUT_S))
        for resource, future in asked.items():
            try:
                _result(future, f"settings of {resource.name}", cluster)
            except Unreachable as error:
                refused[resource.name] = error.message
    return refused


def _entries(future: "Future[Any]", name: str, cluster: ClusterConfig) -> dict[str, str]:
    return {key: entry.value for key, entry in _result(future, f"settings of {name}", cluster).items()}


def _asked_settings(cluster: ClusterConfig, names: Collection[str]) -> "dict[str, Future[Any]]":
    if not names:
        return {}
    deadline = time.monotonic() + _PROPAGATION_S
    while True:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = _asked(lambda: clients.admin(cluster).describe_configs(resources, request_timeout=TIMEOUT_S))  # noqa: B023 - called here
        if time.monotonic() > deadline or KafkaError.UNKNOWN_TOPIC_OR_PART not in map(_code, futures.values()):
            break
        time.sleep(0.05)
    return {resource.name: future for resource, future in futures.items()}


def lacking(have: Mapping[str, int], specs: Collection[TopicSpec]) -> tuple[list[TopicSpec], list[TopicSpec]]:
    """What is to be created, and what is to get more partitions.

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
        widened = _asked(lambda: clients.admin(cluster).create_partitions(wider, request_timeout=TIMEOUT_S))
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

    def ask(wanted: Collection[TopicSpec]) -> "dict[str, Future[Any]]":
        fresh = [NewTopic(s.name, s.partitions, replication_factor, config=dict(s.settings)) for s in wanted]
        return _asked(
            lambda: clients.admin(cluster).create_topics(fresh, request_timeout=TIMEOUT_S, validate_only=validate_only)
        )

    answers = ask(specs)
    refused = [s for s in specs if s.dispensable and _code(answers[s.name]) == KafkaError.INVALID_CONFIG]
    if not refused:
        return answers, []
    again = ask([spec.bare() for spec in refused])
    return answers | again, [spec for spec in refused if _succeeded(again[spec.name])]


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
                continue  # another starter was quicker
            denied = error is not None and error.code() in _DENIED
            lacks = f"the hub's principal lacks {right} on it; " if denied else ""
            raise Unreachable(
                f"topic {name} can not be {done} at {cluster.bootstrap_servers}: "
                f"{lacks}{error.str() if error else 'no answer'}",
                hint="aggregator acls print names every right; or let somebody else do it"
                if denied
                else "check the broker",
            ) from None
