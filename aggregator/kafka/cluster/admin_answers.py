"""This module waits for the answers to administrative requests within a bound, and repeats requests that got lost.

Invariant: a caller waits at most for the time-outs of two requests plus five seconds. A request that a stopped broker
left unanswered is sent once more. While a request waits for a controller, new metadata tell the client which broker is
the next controller. If the client finds no broker any more, another client asks.
"""

import concurrent.futures
import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients

TIMEOUT_S = 10.0
# librdkafka asks once for an unknown controller, and again only after `metadata.max.age.ms`. A cluster whose brokers
# have just started names no controller for a moment.
_CONTROLLER_S = 1.0
_Subject = TypeVar("_Subject")


def result(future: "Future[Any]", what: str, cluster: ClusterConfig) -> Any:
    """Wait for the answer of a cluster, and return it.

    Args:
        future: The future of the answer.
        what: A description of the question, for the error's text.
        cluster: The cluster that was asked.

    Raises:
        Unreachable: it refused, or did not answer.
    """
    try:
        return future.result(TIMEOUT_S + 5)
    except (KafkaException, TimeoutError) as error:
        why = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise Unreachable(
            f"{what} at {cluster.bootstrap_servers}: {why}",
            hint="check that the broker runs and the principal's rights",
        ) from None


def code(future: "Future[Any]") -> int | None:
    """The code by which a question was refused; None where it was answered, or not at all."""
    try:
        error = future.exception(TIMEOUT_S + 5)
    except TimeoutError:
        return None
    number: int | None = error.args[0].code() if isinstance(error, KafkaException) else None
    return number


def succeeded(future: "Future[Any]") -> bool:
    """Whether the cluster did what it was asked."""
    try:
        return future.exception(TIMEOUT_S + 5) is None
    except TimeoutError:
        return False


def with_retry(
    cluster: ClusterConfig, ask: "Callable[[AdminClient], dict[_Subject, Future[Any]]]"
) -> "dict[_Subject, Future[Any]]":
    """Answers to a question that may be asked twice: it is, where the broker that had it is gone from the metadata.

    So it is with each broker of a cluster that is rolled; librdkafka lets go of it and of what it was asked. Where it
    lets go of the last one it finds none again, and another client asks.

    Args:
        cluster: Who is asked.
        ask: Puts the question to its client, with a time-out of `TIMEOUT_S` seconds.
    """
    client = clients.admin(cluster)
    futures = ask(client)
    if not _waited(client, futures.values()):
        clients.renew_admin(cluster, older_than_s=_CONTROLLER_S)
        client = clients.admin(cluster)
        futures = ask(client)
        _waited(client, futures.values())
    gone = any(code(future) == KafkaError._DESTROY_BROKER for future in futures.values())  # noqa: SLF001 - public code
    return ask(client) if gone else futures


def _waited(client: AdminClient, futures: "Collection[Future[Any]]") -> bool:
    """Until all are answered, or time is up; False, at once, where the client finds no broker.

    New metadata name the controller that librdkafka may wait for.
    """
    end_s = time.monotonic() + TIMEOUT_S
    while concurrent.futures.wait(futures, _CONTROLLER_S).not_done and time.monotonic() < end_s:
        try:
            client.list_topics(timeout=_CONTROLLER_S)
        except KafkaException as error:
            if error.args[0].code() == KafkaError._TRANSPORT:  # noqa: SLF001 - public code
                return False
    return True
