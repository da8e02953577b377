"""This module polls confluent-kafka's consumer.

Invariant: a poll returns as soon as a message is there. `Consumer.consume` alone waits for its whole time-out if it
gets fewer messages than it was asked for.
"""

import time
from collections.abc import Iterator

from confluent_kafka import Consumer, Message


def poll_batch(consumer: Consumer, max_records: int, timeout_s: float) -> list[Message]:
    """What is queued, after waiting for the first.

    Args:
        consumer: Consumer to poll.
        max_records: Messages, events among them; at least two.
        timeout_s: Seconds that the first may take.

    Raises:
        KafkaException: as `Consumer.poll`.
    """
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(max_records - 1, timeout=0)]


def messages_until(consumer: Consumer, deadline_s: float) -> Iterator[Message]:
    """One message after another, events among them, until a moment of the monotonic clock.

    Raises:
        KafkaException: as `Consumer.poll`.
    """
    while time.monotonic() < deadline_s:
        message = consumer.poll(0.2)
        if message is not None:
            yield message
