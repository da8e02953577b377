"""The outlet for what may be missing: telemetry and heartbeats, without a transaction and without waiting.

Invariant: never blocks and never raises for a cluster that does not answer; what it can not deliver is dropped.
"""

import contextlib

from aggregator.config.model import ClusterConfig
from aggregator.kafka import clients
from aggregator.kafka.statistics import ClientStatistics


class Outlet:
    """An idempotent producer that drops what it can not queue or deliver within ten seconds."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._statistics = ClientStatistics()
        self._producer = clients.plain_producer(cluster, **self._statistics.options)

    def offer(self, topic: str, value: bytes | None, *, key: bytes | None = None, partition: int = 0) -> None:
        """Queue one record."""
        if self._statistics.lost():
            self._producer.purge()  # or to close it would wait for all that is queued
            self._producer.close()
            self._producer = clients.plain_producer(self._cluster, **self._statistics.options)
        with contextlib.suppress(BufferError):
            self._producer.produce(topic, value, key, partition)
        self._producer.poll(0)

    def close(self, patience_s: float = 1.0) -> None:
        """Give what is queued a moment, then leave."""
        self._producer.flush(patience_s)
        self._producer.close()
