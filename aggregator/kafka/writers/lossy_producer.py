"""This producer is for records that may be lost, such as telemetry and heartbeats; it uses no transaction.

Invariant: the producer never blocks, and never raises an error because a cluster does not answer. A record that it
cannot deliver is dropped.
"""

import contextlib

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients
from aggregator.kafka.client.connection import Connection, drop


class LossyProducer:
    """An idempotent producer that drops what it cannot queue or deliver within ten seconds."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._connection = Connection(cluster, clients.plain_producer, drop)

    def offer(self, topic: str, value: bytes | None, *, key: bytes | None = None) -> None:
        """Queue one record for partition 0."""
        self._connection.renew()
        producer = self._connection.client
        with contextlib.suppress(BufferError):
            producer.produce(topic, value, key, 0)
        producer.poll(0)

    def close(self, timeout_s: float = 1.0) -> None:
        """Give what is queued a moment, then leave."""
        self._connection.client.flush(timeout_s)
        self._connection.close()
