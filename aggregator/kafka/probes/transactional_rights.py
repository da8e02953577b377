"""This module finds out whether the hub's principal may write under a transactional id, without a further right.

It asks the coordinator of the id.

Invariant: no id is taken from its owner. A coordinator checks the right to an id first, and then the time-out of its
transactions. A request with a time-out that no broker allows therefore changes nothing. The probe first makes sure that
no broker allows this time-out, from the brokers' settings or with an id that nobody uses. If they allow it, no other id
is asked about.
"""

import logging
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from enum import Enum
from itertools import count

from confluent_kafka import KafkaError, KafkaException, Producer

from aggregator.backoff import Backoff
from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients
from aggregator.threads import map_concurrently

# The longest time-out in the protocol, in milliseconds; Kafka's default limit is 900,000.
LONGEST_MS = 2**31 - 1
# librdkafka looks for a coordinator when it is called, and then every half second, connected or not.
# A refusal is the answer here; the library calls it fatal.
_SILENT = logging.getLogger(__name__)
_SILENT.setLevel(logging.CRITICAL + 1)
_STEPS = Backoff(first_s=0.02, most_s=0.5, growth=1.5)


class _Answer(Enum):
    """Names the answers that a coordinator may give."""

    DENIED = "denied"
    TOO_LONG = "too long"
    TAKEN = "taken"
    NONE = "none"


def writable(
    cluster: ClusterConfig, ids: Collection[str], *, unused: str, longest_ms: int | None, timeout_s: float
) -> Mapping[str, bool]:
    """Whether we may write under each of these ids; one of which nobody tells is left out.

    Args:
        cluster: Central.
        ids: Those that the hub uses.
        unused: One that nobody uses, and for which there may be a right.
        longest_ms: The longest time-out that the brokers allow, where they tell it.
        timeout_s: For each answer.
    """
    is_refused = longest_ms is not None and longest_ms < LONGEST_MS
    asked = [unused, *ids] if is_refused else [unused]

    def ask(names: Collection[str]) -> dict[str, _Answer]:
        return map_concurrently(lambda one: _asked(cluster, one, timeout_s), names)

    answers = ask(asked)
    if not is_refused and answers[unused] is _Answer.TOO_LONG:
        answers |= ask(ids)
    known = {_Answer.DENIED: False, _Answer.TOO_LONG: True, _Answer.TAKEN: True}
    return {name: known[answer] for name, answer in answers.items() if answer in known}


def _asked(cluster: ClusterConfig, transactional_id: str, timeout_s: float) -> _Answer:
    options = clients.connection_options(cluster, clients.Role.PRODUCER)
    options |= {"transactional.id": transactional_id, "transaction.timeout.ms": LONGEST_MS, "enable.idempotence": True}
    producer, deadline = Producer(options, logger=_SILENT), time.monotonic() + timeout_s
    try:
        for calls in count(1):
            step_s = _STEPS.pause_s(calls)
            try:
                producer.init_transactions(step_s)
            except KafkaException as failure:
                error = failure.args[0]
                if not error.retriable() or time.monotonic() > deadline:
                    return _meaning(error)
                if error.code() != KafkaError._TIMED_OUT:  # noqa: SLF001 - librdkafka's public code has this name
                    time.sleep(step_s)
            else:
                break
    finally:
        with suppress(KafkaException):  # raises the refusal once more
            producer.close()
    return _Answer.TAKEN


def _meaning(error: KafkaError) -> _Answer:
    match error.code():
        case KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return _Answer.DENIED
        case KafkaError.INVALID_TRANSACTION_TIMEOUT:
            return _Answer.TOO_LONG
    return _Answer.NONE
