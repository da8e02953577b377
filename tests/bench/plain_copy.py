"""The floor: a transactional copy with librdkafka and nothing else, as short as it can be in Python.

    python -m tests.bench.plain_copy SOURCE_SERVERS TARGET_SERVERS SOURCE_TOPIC TARGET_TOPIC

Keeps key, value, headers, timestamp and partition; consumed offsets are not stored, so it is no exactly-once tool. It
runs until it is killed.
"""

import sys
import time

from confluent_kafka import Consumer, Producer, TopicPartition

_POLL_RECORDS = 10_000
_COMMIT_S = 0.5


def main() -> None:
    """Copy until killed."""
    source, target, topic, copy = sys.argv[1:]
    reader = Consumer(
        {
            "bootstrap.servers": source,
            "group.id": "plain-copy",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "queued.min.messages": 100_000,
        }
    )
    reader.assign([TopicPartition(topic, p, 0) for p in reader.list_topics(topic, timeout=10).topics[topic].partitions])
    writer = Producer({"bootstrap.servers": target, "transactional.id": copy, "linger.ms": 5, "batch.size": 1_000_000})
    writer.init_transactions(30)
    while True:
        writer.begin_transaction()
        until = time.monotonic() + _COMMIT_S
        while time.monotonic() < until:
            for message in reader.consume(_POLL_RECORDS, 0.05):
                _send(writer, copy, message)
        writer.commit_transaction(30)


def _send(writer: Producer, copy: str, message) -> None:
    kept = {"headers": message.headers(), "timestamp": message.timestamp()[1]}
    while True:
        try:
            writer.produce(copy, message.value(), message.key(), message.partition(), **kept)
        except BufferError:
            writer.poll(0.05)
        else:
            return


if __name__ == "__main__":
    main()
