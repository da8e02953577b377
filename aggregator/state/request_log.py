"""This module reads, follows and writes the requests topic.

Invariant: `requests.py` decides what a request means.
"""

from collections.abc import Collection, Iterable

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.tail import LogTail
from aggregator.kafka.writers.acknowledged_writes import Record, write_acknowledged
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.gap import GapDecision
from aggregator.state.names import HubNames
from aggregator.state.pauses import Pause
from aggregator.state.releases import Release, fold_releases
from aggregator.state.requests import Requests, encode, fold_requests


def read_requests(cluster: ClusterConfig, names: HubNames) -> Requests:
    """Every request, the topic read to its end; none before the hub's first run.

    Raises:
        FatalError: an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return Requests()
    return fold_requests(read_to_end(cluster, names.requests, [0]), names.requests)


def read_releases(cluster: ClusterConfig, names: HubNames) -> tuple[Release, ...]:
    """Every release, the topic read to its end; none before the hub's first run.

    Raises:
        FatalError: an end that stays stuck.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, names.requests):
        return ()
    return fold_releases(read_to_end(cluster, names.requests, [0]))


def submit(cluster: ClusterConfig, names: HubNames, asked: Collection[GapDecision | Pause | ClusterAcceptance]) -> None:
    """Write decisions, pauses and acceptances, and wait until central has them.

    Raises:
        Unreachable: central did not take all of them; submitting again does no harm.
    """
    write(cluster, names, (encode(one) if isinstance(one, GapDecision) else one.encode() for one in asked))


def write(cluster: ClusterConfig, names: HubNames, requests: Iterable[tuple[str, bytes | None]]) -> None:
    """Write any requests, by key and value, and wait until central has them.

    Raises:
        Unreachable: central did not take all of them; writing them again does no harm.
    """
    if why := write_acknowledged(cluster, (Record(names.requests, key, value) for key, value in requests)):
        raise Unreachable(
            f"{names.requests} at {cluster.bootstrap_servers} did not take the request: {why}",
            hint="check the broker and the principal's right to write this topic, then ask again",
        )


class RequestWatch:
    """Follows the requests topic without waiting; it proves nothing, because the newest records may be missing."""

    def __init__(self, cluster: ClusterConfig, names: HubNames) -> None:
        self._topic = names.requests
        self._tail = LogTail(cluster, names.requests)

    def poll(self) -> Requests:
        """Requests that arrived since the last look, all of them at the first; never blocks."""
        return fold_requests(self._tail.poll(), self._topic)

    def close(self) -> None:
        """Close the connection to central."""
        self._tail.close()
