"""A client that is kept for hours, and replaced by another when it is lost (librdkafka issue 5301).

Invariant: only the holder creates and abandons clients, so its user asks for the client each time. The user assigns to
the new client what the lost one had been assigned.
"""

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from confluent_kafka import Producer

from aggregator.kafka.statistics import ClientStatistics


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
    """Holds one client of a cluster.

    Args:
        connect: Makes a client that has these further properties of librdkafka's.
        leave: Ends a client that is lost.

    Attributes:
        client: The one to use now.
        statistics: What the clients tell of themselves.
    """

    def __init__(self, connect: Callable[..., C], leave: Callable[[C], None] = _close) -> None:
        self._connect, self._leave = connect, leave
        self.statistics = ClientStatistics()
        self.client = connect(**self.statistics.options)

    def renew(self) -> bool:
        """Replace the client if it is lost; whether it was."""
        if not self.statistics.lost():
            return False
        self._leave(self.client)
        self.client = self._connect(**self.statistics.options)
        return True

    def close(self) -> None:
        """Leave the cluster."""
        self.client.close()
