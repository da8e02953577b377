"""Polls of confluent-kafka's consumer.

Invariant: returns as soon as something is there. `Consumer.consume` alone waits out its whole time for the last message
that it was asked for.
"""

from confluent_kafka import Consumer, Message


def poll_batch(consumer: Consumer, most: int, wait_s: float) -> list[Message]:
    """What is queued, after waiting for the first.

    Args:
        consumer: Where from.
        most: Messages, events among them; at least two.
        wait_s: Seconds that the first may take.

    Raises:
        KafkaException: as `Consumer.poll`.
    """
    first = consumer.poll(wait_s)
    if first is None:
        return []
    return [first, *consumer.consume(most - 1, timeout=0)]
