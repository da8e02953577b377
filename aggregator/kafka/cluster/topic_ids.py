"""This module asks the brokers of one edge for topic ids, with a client beside the edge's reader.

Invariant: thin. No caller waits longer than it says. A client that gets no answers is replaced, because a client that
knows no brokers never connects again (see `clients.renew_admin`). A client is also replaced when its credentials were
renewed.
"""

import time
from collections.abc import Collection
from contextlib import suppress

from confluent_kafka import KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import ConfigError
from aggregator.kafka.client import clients
from aggregator.kafka.client.credentials import Credentials
from aggregator.kafka.native.topic_ids import Answer, TopicIdClient

# The time-out of a question.
TIMEOUT_S = 2.0
_LEAST_AGE_S = 30.0


class EdgeTopicIds:
    """Asks the brokers of one edge.

    Args:
        cluster: The edge.
    """

    def __init__(self, cluster: ClusterConfig) -> None:
        self._cluster = cluster
        self._credentials = Credentials(cluster.client)
        self._open: set[int] = set()
        self._client = self._connect()

    def _connect(self) -> TopicIdClient:
        self._connected = time.monotonic()
        return clients.topic_ids(self._cluster)

    def ask(self, number: int, topics: Collection[str], broker: int) -> None:
        """Ask one broker for the ids of topics, or where `broker` is below 0 any; see `TopicIds.ask`."""
        if not self._open and self._credentials.changed():
            with suppress(KafkaException, ConfigError):  # half renewed: the former client stays until all fit
                fresh = self._connect()
                self._credentials.mark_applied()
                self._client.close()
                self._client = fresh
        self._client.ask(number, topics, broker, TIMEOUT_S)
        self._open.add(number)

    def answer(self, timeout_s: float) -> Answer | None:
        """The next answer, after at most `timeout_s` seconds; a question of two seconds' age is answered, too."""
        found = self._client.answer(timeout_s)
        if found is not None:
            self._open.discard(found.number)
        if found is not None and found.code and time.monotonic() - self._connected > _LEAST_AGE_S:
            self._client.close()
            self._client = self._connect()
            self._open.clear()
        return found

    def close(self) -> None:
        """Close the client of the edge."""
        self._client.close()
