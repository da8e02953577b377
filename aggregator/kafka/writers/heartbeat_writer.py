"""This module writes heartbeats from a process near an edge, one record at a time, each acknowledged.

Invariant: a heartbeat that the edge refuses for good raises an error. A heartbeat that the edge does not take in time
is dropped: its absence is the signal.
"""

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.errors import FatalError
from aggregator.kafka.client import clients
from aggregator.kafka.client.connection import Connection, drop

_TIMEOUT_S = 5.0
_WRITE = "give the principal the right to write `heartbeats`"
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: _WRITE,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: _WRITE,
    KafkaError.UNKNOWN_TOPIC_OR_PART: "create it with one partition and cleanup.policy=compact; a hub that may does so",
    KafkaError._UNKNOWN_TOPIC: "create it with one partition and cleanup.policy=compact",  # noqa: SLF001 - public code
    KafkaError.INVALID_TIMESTAMP: "set message.timestamp.type=LogAppendTime on it: a clock is far off",
}


class HeartbeatWriter:
    """Writes to `heartbeats` of one cluster.

    Args:
        cluster: The edge.
    """

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._connection = Connection(cluster, clients.plain_producer, drop)

    def write(self, key: bytes, value: bytes) -> None:
        """Write one beat and wait for its acknowledgement, for some seconds at most.

        Raises:
            FatalError: the edge refuses it, and will refuse the next one, too.
        """
        self._connection.renew()
        producer = self._connection.client
        errors: list[KafkaError] = []
        try:
            producer.produce(
                HEARTBEATS, value, key, 0, on_delivery=lambda error, _: errors.append(error) if error else None
            )
            producer.flush(_TIMEOUT_S)
        except BufferError:  # the edge has been away for a long time
            producer.poll(0)
            return
        except (KafkaException, SystemError) as failed:  # SystemError: the client has failed for good, now or before
            where = f"{HEARTBEATS} at {self._cluster.bootstrap_servers}"
            code = failed.args[0].code() if isinstance(failed, KafkaException) else None
            raise FatalError(f"{where}: the client was refused", hint=_REFUSED.get(code, _WRITE)) from None
        for error in errors:
            if error.code() in _REFUSED:
                where = f"{HEARTBEATS} at {self._cluster.bootstrap_servers}"
                raise FatalError(f"{where}: {error.str()}", hint=_REFUSED[error.code()])

    def close(self) -> None:
        """Close the connection to the cluster."""
        self._connection.close()
