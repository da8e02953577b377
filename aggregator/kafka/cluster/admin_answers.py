"""Answers of a cluster to administrative questions: waited for within a bound, and told by their codes.

Invariant: no caller waits longer than for the question's time-out and five seconds. What a broker that was just stopped
leaves unanswered is asked once more.
"""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable

TIMEOUT_S = 10.0
_Subject = TypeVar("_Subject")


def result(future: "Future[Any]", what: str, cluster: ClusterConfig) -> Any:
    """What the cluster answered.

    Args:
        future: Its answer to come.
        what: Was asked, for the error's text.
        cluster: Which was asked.

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
    """By which code a question was refused; None where it was answered, or not at all."""
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


def asked(ask: "Callable[[], dict[_Subject, Future[Any]]]") -> "dict[_Subject, Future[Any]]":
    """Answers to a question that may be asked twice: it is, where the broker that had it is gone from the metadata.

    So it is with each broker of a cluster that is rolled; librdkafka lets go of it and of what it was asked.
    """
    futures = ask()
    gone = any(code(future) == KafkaError._DESTROY_BROKER for future in futures.values())  # noqa: SLF001 - public code
    return ask() if gone else futures
