"""The requests read, followed and written.

Invariant: what a request says is decided in `requests.py`.
"""

from collections.abc import Collection, Iterable

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.tail import LogTail
from aggregator.state.gap import Decision
from aggregator.state.names import HubNames
from aggregator.state.pauses import Pause
from aggregator.state.releases import Release, fold_releases
from aggregator.state.requests import Requests, encode, fold_requests
from aggregator.state.successions import Succession

# An idempotent producer asks for its id half a second after its start; a request that comes twice is the same request.
_AT_ONCE = {"enable.idempotence": False, "max.in.flight.requests.per.connection": 1}
_FLUSH_S = 15.0


def read_requests(cluster: ClusterConfig, names: HubNames) -> Requests:
    """Every request, the topic read to its end; none before the hub's first run.

    Raises:
        Failed: an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return Requests()
    return fold_requests(read_to_end(cluster, names.requests, [0]), names.requests)


def read_releases(cluster: ClusterConfig, names: HubNames) -> tuple[Release, ...]:
    """Every release, the topic read to its end; none before the hub's first run.

    Raises:
        Failed: an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return ()
    return fold_releases(read_to_end(cluster, names.requests, [0]))


def submit(cluster: ClusterConfig, names: HubNames, asked: Collection[Decision | Pause | Succession]) -> None:
    """Write decisions, pauses and successions, and wait until central has them.

    Raises:
        Unreachable: central did not take all of them; submitting again does no harm.
    """
    write(cluster, names, (encode(one) if isinstance(one, Decision) else one.encode() for one in asked))


def write(cluster: ClusterConfig, names: HubNames, requests: Iterable[tuple[str, bytes | None]]) -> None:
    """Write any requests, by key and value, and wait until central has them.

    Raises:
        Unreachable: central did not take all of them; writing them again does no harm.
    """
    refused: list[str] = []
    producer = clients.plain_producer(cluster, **_AT_ONCE)
    for key, value in requests:
        producer.produce(
            names.requests,
            value,
            key,
            0,
            on_delivery=lambda error, _: refused.append(error.str()) if error is not None else None,
        )
    if producer.flush(_FLUSH_S) or refused:
        why = refused[0] if refused else "no answer"
        raise Unreachable(
            f"{names.requests} at {cluster.bootstrap_servers} did not take the request: {why}",
            hint="check the broker and the principal's right to write this topic, then ask again",
        )


class RequestWatch:
    """Follows the requests topic without waiting; a look, not a proof."""

    def __init__(self, cluster: ClusterConfig, names: HubNames) -> None:
        self._topic = names.requests
        self._tail = LogTail(cluster, names.requests)

    def look(self) -> Requests:
        """Requests that arrived since the last look, all of them at the first; never blocks."""
        return fold_requests(self._tail.arrived(), self._topic)

    def close(self) -> None:
        """Leave the cluster."""
        self._tail.close()
