"""A connection keeps one client for hours, and replaces a client that is lost or has to sign in with new credentials.

A client is lost if it has forgotten all brokers (librdkafka issue 5301).

Invariant: only the connection creates and abandons clients, so its user must ask for the client each time. The user
assigns to a new client the partitions that the former one had.
"""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from confluent_kafka import KafkaException, Producer

from aggregator.config.model import ClusterConfig
from aggregator.errors import ConfigError
from aggregator.kafka.client.credentials import Credentials
from aggregator.kafka.client.statistics import EVERY_MS, ClientStatistics

log = logging.getLogger(__name__)


class _Client(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=_Client)


def _close(client: _Client) -> None:
    client.close()


def drop(producer: Producer) -> None:
    """Leave a cluster without what is still queued, for which `close` alone would wait."""
    producer.purge()
    producer.close()


class Connection(Generic[C]):
    """Holds one client of a cluster, and replaces it when needed.

    Args:
        cluster: The cluster.
        connect: Creates a client of the cluster, with additional librdkafka properties as keyword arguments.
        leave: Ends a client that is lost.
        every_ms: How often they tell of themselves.

    Attributes:
        client: The one to use now.
        statistics: What the clients tell of themselves.
    """

    def __init__(
        self,
        cluster: ClusterConfig,
        connect: Callable[..., C],
        leave: Callable[[C], None] = _close,
        *,
        every_ms: int = EVERY_MS,
    ) -> None:
        self._cluster, self._connect, self._leave = cluster, connect, leave
        self._credentials = Credentials(cluster.client)
        self.statistics = ClientStatistics(every_ms)
        self.client = self._connected()

    def _connected(self) -> C:
        return self._connect(self._cluster, **self.statistics.options)

    def renew(self) -> bool:
        """Replace the client if it is lost, or its password, key or certificate was renewed; whether it was."""
        if self.statistics.take_lost():
            self._leave(self.client)
            self.client = self._connected()
            return True
        return self._credentials.changed() and self._signed_in_anew()

    def _signed_in_anew(self) -> bool:
        """Whether a client could be made of what was renewed; until then the former one goes on."""
        try:
            fresh = self._connect(self._cluster, **self.statistics.options)
        except (KafkaException, ConfigError) as error:
            log.warning("%s: what was renewed cannot be used: %s", self._cluster.bootstrap_servers, error)
            return False
        self._credentials.mark_applied()
        self._leave(self.client)
        self.client = fresh
        log.info("%s: signing in with what was renewed", self._cluster.bootstrap_servers)
        return True

    def close(self) -> None:
        """Close the client."""
        self.client.close()
