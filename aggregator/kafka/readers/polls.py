"""This module polls confluent-kafka's consumer for a batch of messages.

Invariant: the poll returns as soon as a message is there. `Consumer.consume` alone waits for its whole time-out if it
gets fewer messages than it was asked for.
"""

from confluent_kafka import Consumer, Message


def poll_batch(consumer: Consumer, most: int, timeout_s: float) -> list[Message]:
    """What is queued, after waiting for the first.

    Args:
        consumer: Consumer to poll.
        most: Messages, events among them; at least two.
        timeout_s: Seconds that the first may take.

    Raises:
        KafkaException: as `Consumer.poll`.
    """
    first = consumer.poll(timeout_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, timeout=0)]
