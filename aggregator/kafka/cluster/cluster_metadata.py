"""This module reads a cluster's metadata: its id, its brokers, and every topic with the partitions that have a leader.

Invariant: one request, which needs no rights except those of seeing topics. The id and the topics come from the same
client.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from confluent_kafka import KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.client.reachability import why_not_listening

# A live broker answers within this time. After that the addresses are tried, and the call does not wait longer for
# addresses that refuse connections.
_LISTENS_S, _CONNECTS_S = 1.0, 1.0


class ClusterMetadata(NamedTuple):
    """Holds what a cluster tells about itself.

    Attributes:
        cluster_id: Id that Kafka drew; empty if the brokers tell none.
        brokers: Their numbers.
        leaders: Of each topic and each of its partitions, whether a broker leads it.
    """

    cluster_id: str
    brokers: tuple[int, ...]
    leaders: Mapping[str, tuple[bool, ...]]


def cluster_metadata(cluster: ClusterConfig, *, timeout_s: float) -> ClusterMetadata:
    """Ask a cluster for its metadata.

    Raises:
        Unreachable: no broker answers within `timeout_s` seconds, or nobody listens at its addresses.
    """
    refused = ""
    try:
        try:
            metadata = clients.admin(cluster).list_topics(timeout=min(timeout_s, _LISTENS_S))
        except KafkaException:
            if timeout_s <= _LISTENS_S or (
                refused := why_not_listening(cluster.bootstrap_servers, timeout_s=_CONNECTS_S)
            ):
                raise
            clients.renew_admin(cluster, older_than_s=_LISTENS_S)
            metadata = clients.admin(cluster).list_topics(timeout=timeout_s - _LISTENS_S)
    except KafkaException as error:
        shut = clients.authentication_error(cluster)
        clients.renew_admin(cluster)
        raise Unreachable(
            f"no broker {'lets the hub in' if shut else 'answers'} at {cluster.bootstrap_servers}: "
            f"{shut or refused or error.args[0].str()}",
            hint="check `client:` of this cluster: docs/connections.md"
            if shut
            else "check the address, the network and whether the broker runs",
        ) from None
    return ClusterMetadata(str(metadata.cluster_id or ""), tuple(sorted(metadata.brokers)), leaders_of(metadata))


def leaders_of(metadata: Any) -> dict[str, tuple[bool, ...]]:
    """Of each topic in a client's answer that has no error, and each of its partitions, whether a broker leads it."""
    return {
        name: tuple(topic.partitions[number].leader >= 0 for number in sorted(topic.partitions))
        for name, topic in metadata.topics.items()
        if topic.error is None
    }
