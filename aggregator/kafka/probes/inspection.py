"""An inspection signs in to a cluster and asks for its id, its settings and the rights of the hub's principal.

Invariant: this module only reads, and every request is bounded in time. If the rights do not allow an answer, it is
None.
"""

import contextlib
import json
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from aggregator.config.model import ClusterConfig
from aggregator.errors import ConfigError
from aggregator.kafka.client import clients
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.cluster_view import Acl, ClusterView, ProbedTopic, SignInResult, Topics
from aggregator.kafka.readers.codes import name_of
from aggregator.threads import run_in_thread

# How often a client that signs in is polled, and how often it reports the brokers that it has learned.
_LOOK_S = 0.1
_STATISTICS_MS = 500
# The time between a question's own time-out and the arrival of that news, for all of its answers together.
_GRACE_S = 1.0
# The codes with which a client is finally refused. After any other code it tries again.
_FINAL = ("_AUTHENTICATION", "SASL_AUTHENTICATION_FAILED", "_SSL", "UNSUPPORTED_SASL_MECHANISM")


def sign_in(cluster: ClusterConfig, *, timeout_s: float) -> SignInResult:
    """Connect as the hub does, and ask for nothing but the brokers.

    Raises:
        ConfigError: a secret cannot be read, or the client takes no such settings.
    """
    heard, statistics = list[KafkaError](), list[str]()
    client = _client(
        cluster, {"error_cb": heard.append, "stats_cb": statistics.append, "statistics.interval.ms": _STATISTICS_MS}
    )
    asked = run_in_thread(lambda: client.list_topics(timeout=timeout_s), "sign in")
    deadline = time.monotonic() + timeout_s
    final: KafkaError | None = None
    while not asked.done() and final is None and time.monotonic() < deadline + 1:
        client.poll(_LOOK_S)
        final = next((error for error in heard if name_of(error.code()) in _FINAL), None)
    if final is None and asked.done() and asked.exception() is None:
        shown = asked.result()
        return SignInResult(view=ClusterView(str(shown.cluster_id), _addresses(shown.brokers)))
    learned = _learned(statistics)
    if final is None and learned:
        return SignInResult(view=ClusterView("", learned))
    error = final or (heard[-1] if heard else None)
    return SignInResult(name_of(error.code()), str(error.str())) if error else SignInResult("_TIMED_OUT", "no answer")


def _addresses(brokers: Mapping[int, Any]) -> dict[int, Address]:
    return {number: Address(one.host, one.port) for number, one in brokers.items()}


def _learned(statistics: Sequence[str]) -> dict[int, Address]:
    """Brokers that a client was told of and cannot reach: it leaves the address that it began at for theirs."""
    brokers = json.loads(statistics[-1]).get("brokers", {}) if statistics else {}
    learned = [one for one in brokers.values() if one.get("source") == "learned" and one.get("nodeid", -1) >= 0]
    return {one["nodeid"]: Address.parse(one["nodename"]) for one in learned}


def check_settings(cluster: ClusterConfig) -> None:
    """Refuse settings of which no client can be made, without connecting to anything.

    Raises:
        ConfigError: a secret cannot be read, or the client takes no such settings.
    """
    _client(cluster, {})


def _client(cluster: ClusterConfig, options: Mapping[str, Any]) -> AdminClient:
    try:
        return AdminClient(clients.connection_options(cluster, clients.Role.ADMIN) | dict(options), logger=clients.log)
    except KafkaException as refused:
        why = refused.args[0].str().removeprefix("Failed to create admin client: ")
        raise ConfigError(f"`client`: {why}", hint=_mended(why)) from None


def _mended(why: str) -> str:
    if "No provider for SASL mechanism" in why:
        return (
            "set `sasl.mechanism` to SCRAM-SHA-512, PLAIN or OAUTHBEARER, or install a client built with it:"
            " pip install --no-binary confluent-kafka confluent-kafka"
        )
    return "correct the `client` block"


def look(cluster: ClusterConfig, view: ClusterView, broker: int, *, timeout_s: float) -> ClusterView:
    """The rest of what a cluster tells of itself.

    Args:
        cluster: The cluster.
        view: View from the sign-in.
        broker: Number of the one whose settings are asked for.
        timeout_s: Patience for all answers together.
    """
    admin, deadline = clients.admin(cluster), time.monotonic() + timeout_s + _GRACE_S
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    shown = admin.describe_cluster(include_authorized_operations=True, request_timeout=timeout_s)
    configs = admin.describe_configs([ConfigResource(ResourceType.BROKER, str(broker))], request_timeout=timeout_s)
    acls = admin.describe_acls(every, request_timeout=timeout_s)
    described = _answer(shown, deadline)
    settings = _answer(next(iter(configs.values())), deadline)
    rules = _answer(acls, deadline)
    return ClusterView(
        view.cluster_id,
        view.brokers,
        None if settings is None else {key: entry.value or "" for key, entry in settings.items()},
        None if described is None else _operations(described.authorized_operations),
        None if rules is None else tuple(_acl(rule) for rule in rules),
    )


def topics(cluster: ClusterConfig, names: Collection[str], *, timeout_s: float) -> Topics:
    """What a cluster tells of topics; one that is not there is left out."""
    if not names:
        return Topics()
    admin, deadline = clients.admin(cluster), time.monotonic() + timeout_s + _GRACE_S
    asked = admin.describe_topics(
        TopicCollection(list(names)), include_authorized_operations=True, request_timeout=timeout_s
    )
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    settings = {
        one.name: future for one, future in admin.describe_configs(resources, request_timeout=timeout_s).items()
    }
    views, refused = dict[str, ProbedTopic](), dict[str, str]()
    for name, future in asked.items():
        try:
            shown = future.result(max(0.0, deadline - time.monotonic()))
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                refused[name] = name_of(error.args[0].code())
        except TimeoutError:
            refused[name] = "no answer"
        else:
            entries = _answer(settings[name], deadline)
            views[name] = _topic(shown, entries)
    return Topics(views, refused)


def _topic(shown: Any, entries: Any) -> ProbedTopic:
    led = {one.id for one in shown.partitions if one.leader is not None and one.leader.id >= 0}
    return ProbedTopic(
        len(shown.partitions),
        min((len(one.replicas) for one in shown.partitions), default=0),
        min((len(one.isr) for one in shown.partitions), default=0),
        tuple(sorted({one.id for one in shown.partitions} - led)),
        _operations(shown.authorized_operations),
        None if entries is None else {key: entry.value or "" for key, entry in entries.items()},
    )


def _answer(future: "Future[Any]", deadline: float) -> Any:
    """The answer; None if there is none, or none that the hub may see."""
    with contextlib.suppress(KafkaException, TimeoutError):
        return future.result(max(0.0, deadline - time.monotonic()))
    return None


def _operations(operations: Iterable[AclOperation] | None) -> frozenset[str] | None:
    return None if operations is None else frozenset(one.name for one in operations)


def _acl(rule: Any) -> Acl:
    return Acl(
        rule.restype.name,
        rule.name,
        rule.resource_pattern_type == ResourcePatternType.PREFIXED,
        rule.principal,
        rule.host,
        rule.operation.name,
        rule.permission_type == AclPermissionType.ALLOW,
    )
