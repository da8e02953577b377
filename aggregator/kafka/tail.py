"""The tail of a compacted internal topic: what has arrived in its one partition since the last look.

Invariant: never blocks and proves nothing; whoever needs a proof reads the log to its end.
"""

from confluent_kafka import OFFSET_BEGINNING, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.kafka import clients
from aggregator.kafka.log import LogRecord

_MOST = 1000


class LogTail:
    """Follows partition 0 of a topic from its beginning."""

    def __init__(self, cluster: ClusterConfig, topic: str) -> None:
        self._reader = clients.consumer(cluster)
        self._reader.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])

    def arrived(self) -> list[LogRecord]:
        """Committed records since the last look, in log order; none while the cluster is away."""
        try:
            return [
                LogRecord(0, message.offset(), (message.key() or b"").decode(), message.value())
                for message in self._reader.consume(_MOST, 0)
                if message.error() is None
            ]
        except KafkaException:
            return []

    def close(self) -> None:
        """Leave the cluster."""
        self._reader.close()
