"""Peeking: the timestamp of the first record at or after an offset, for lag in time.

Invariant: reads a record's coordinates and timestamp only; bounded in time, and missing is an answer.
"""

import time
from collections.abc import Mapping

from confluent_kafka import KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka import clients
from aggregator.kafka.ends import Partition


def timestamps_at(
    cluster: ClusterConfig, positions: Mapping[Partition, int], *, patience_s: float
) -> dict[Partition, int]:
    """Timestamp in ms of the first committed record at or after each position.

    Args:
        cluster: Where to look.
        positions: Next offsets.
        patience_s: Seconds after which what has not answered is left out.

    Returns:
        Partitions that have such a record.

    Raises:
        Unreachable: the client could not be used at all.
    """
    if not positions:
        return {}
    reader = clients.consumer(cluster, **{"fetch.message.max.bytes": 64 * 1024, "queued.min.messages": 1})
    found: dict[Partition, int] = {}
    asked = set(positions)
    deadline = time.monotonic() + patience_s
    try:
        reader.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()])
        while asked and time.monotonic() < deadline:
            for message in reader.consume(500, 0.05):
                at = (message.topic(), message.partition())
                if at in asked:
                    asked.discard(at)
                    if message.error() is None:
                        found[at] = message.timestamp()[1]
    except KafkaException as failure:
        raise Unreachable(f"{cluster.bootstrap_servers}: {failure.args[0].str()}", hint="check the broker") from None
    finally:
        reader.close()
    return found
