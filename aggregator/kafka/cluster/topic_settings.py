"""This module reads and changes the settings of topics: the effective ones, the topic's own, and the brokers' defaults.

Invariant: a change sets the settings that it names, and leaves all others alone. If a cluster refuses one setting of a
topic, the other settings of the topic are still made.
"""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import Future
from typing import Any, NamedTuple

from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource, ResourceType

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.cluster.admin_answers import TIMEOUT_S, code, result, with_retry
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata
from aggregator.kafka.cluster.topic_spec import inherited

# A broker may confirm a creation before all brokers, including itself, have the topic in their metadata.
_PROPAGATION_S = 5.0
_OF_THE_TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG.value


def settings(cluster: ClusterConfig, names: Collection[str]) -> dict[str, dict[str, str]]:
    """Effective topic settings by topic name. A topic that was just created is asked for until its broker knows it.

    Raises:
        Unreachable: no answer, or no right to describe configs.
    """
    return {name: one.values for name, one in known_settings(cluster, names).items()}


def topic_defaults(cluster: ClusterConfig) -> dict[str, str]:
    """The topic settings that the brokers give by default; empty if the hub may not ask for them.

    Raises:
        Unreachable: no broker answers.
    """
    brokers = cluster_metadata(cluster, timeout_s=TIMEOUT_S).brokers
    resource = ConfigResource(ResourceType.BROKER, str(min(brokers, default=0)))
    answers = with_retry(cluster, lambda client: client.describe_configs([resource], request_timeout=TIMEOUT_S))
    try:
        entries = _entries(answers[resource], "settings of a broker", cluster)
    except Unreachable:
        return {}
    return inherited(entries)


class Settings(NamedTuple):
    """Holds the settings of a topic.

    Attributes:
        values: All that are in effect.
        own: Names of those that were given to the topic itself; it has the others from its brokers.
    """

    values: dict[str, str]
    own: frozenset[str]


def known_settings(cluster: ClusterConfig, names: Collection[str]) -> "dict[str, Settings]":
    """The same, with which of them are each topic's own; errors as of `settings`."""
    asked_for = _asked_settings(cluster, names)
    return {name: _settings(result(future, f"settings of {name}", cluster)) for name, future in asked_for.items()}


def settings_each(cluster: ClusterConfig, names: Collection[str]) -> tuple[dict[str, Settings], dict[str, str]]:
    """Settings of topics by themselves: those that are told, and why others are not."""
    found: dict[str, Settings] = {}
    refused: dict[str, str] = {}
    for name, future in _asked_settings(cluster, names).items():
        try:
            entries = result(future, f"settings of {name}", cluster)
        except Unreachable as error:
            refused[name] = error.message
        else:
            found[name] = _settings(entries)
    return found, refused


def _settings(entries: Mapping[str, Any]) -> Settings:
    own = frozenset(key for key, entry in entries.items() if entry.source == _OF_THE_TOPIC)
    return Settings({key: entry.value for key, entry in entries.items()}, own)


class RefusedSettings(NamedTuple):
    """A setting that could not be made on a topic.

    Attributes:
        topic: Its name.
        setting: Kafka's name.
        why: In words.
        is_right: The principal may not change it; else the cluster does not take the value, or did not answer.
    """

    topic: str
    setting: str
    why: str
    is_right: bool


def change_settings(cluster: ClusterConfig, wanted: Mapping[str, Mapping[str, str]]) -> list[RefusedSettings]:
    """Give topics these settings, and leave their others alone; those that they did not get.

    A cluster takes all that is said of a topic or nothing, so what it refuses is said once more setting by setting.

    Args:
        cluster: Whose.
        wanted: Settings by topic.
    """
    refused = _altered(cluster, wanted)
    again = {
        (name, key): {key: wanted[name][key]}
        for name, why in refused.items()
        if not why.is_right
        for key in wanted[name]
    }
    found = [why._replace(setting=key) for name, why in refused.items() if why.is_right for key in wanted[name]]
    for (name, key), one in again.items():
        found += [why._replace(setting=key) for why in _altered(cluster, {name: one}).values()]
    return found


def _altered(cluster: ClusterConfig, wanted: Mapping[str, Mapping[str, str]]) -> dict[str, RefusedSettings]:
    """Set all of each topic at once; by topic why nothing of it was set."""
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
    refused: dict[str, RefusedSettings] = {}
    if resources:
        answers = with_retry(
            cluster, lambda client: client.incremental_alter_configs(resources, request_timeout=TIMEOUT_S)
        )
        for resource, future in answers.items():
            try:
                result(future, f"settings of {resource.name}", cluster)
            except Unreachable as error:
                is_right = code(future) == KafkaError.TOPIC_AUTHORIZATION_FAILED
                refused[resource.name] = RefusedSettings(resource.name, "", error.message, is_right)
    return refused


def _entries(future: "Future[Any]", name: str, cluster: ClusterConfig) -> dict[str, str]:
    return {key: entry.value for key, entry in result(future, f"settings of {name}", cluster).items()}


def _asked_settings(cluster: ClusterConfig, names: Collection[str]) -> "dict[str, Future[Any]]":
    if not names:
        return {}
    deadline = time.monotonic() + _PROPAGATION_S
    while True:
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        futures = with_retry(cluster, lambda client: client.describe_configs(resources, request_timeout=TIMEOUT_S))  # noqa: B023 - called here
        if time.monotonic() > deadline or KafkaError.UNKNOWN_TOPIC_OR_PART not in map(code, futures.values()):
            break
        time.sleep(0.05)
    return {resource.name: future for resource, future in futures.items()}
