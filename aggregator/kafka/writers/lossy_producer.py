"""This producer is for records that may be lost, such as telemetry and heartbeats; it uses no transaction.

Invariant: the producer never blocks, and never raises an error because a cluster does not answer, or does not have the
topic any more. A record that it cannot deliver is dropped.
"""

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.kafka.client import clients
from aggregator.kafka.client.connection import Connection, drop

# What a client says once it knows that the topic is gone; it asks for it again by itself.
_GONE = (KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - public codes


class LossyProducer:
    """An idempotent producer that drops what it cannot queue or deliver within ten seconds."""

    def __init__(self, cluster: ClusterConfig) -> None:
        self._connection = Connection(cluster, clients.plain_producer, drop)

    def offer(self, topic: str, value: bytes | None, *, key: bytes | None = None) -> None:
        """Queue one record for partition 0."""
        self._connection.renew()
        producer = self._connection.client
        try:
            producer.produce(topic, value, key, 0)
        except BufferError:
            pass
        except KafkaException as error:
            if error.args[0].code() not in _GONE:
                raise
        producer.poll(0)

    def close(self, timeout_s: float = 1.0) -> None:
        """Give what is queued a moment, then leave."""
        self._connection.client.flush(timeout_s)
        self._connection.close()
