"""Makes the line that a hub logs when it starts: its version, and each cluster by name, id, protocol and release.

Invariant: what a cluster does not tell is shown as not known. The questions cost a few seconds at most, beside other
work, and no decision depends on them.
"""

from collections.abc import Mapping
from importlib.metadata import version
from typing import NamedTuple

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.doctor.cluster import release
from aggregator.errors import AggregatorError
from aggregator.kafka.client.address import Address
from aggregator.kafka.probes.listener_probe import probe
from aggregator.kafka.probes.tls import context, is_encrypted
from aggregator.threads import map_concurrently

_TIMEOUT_S = 2.0


class Greeted(NamedTuple):
    """The known facts of a cluster.

    Attributes:
        cluster_id: Empty: it tells none; None: nobody answers.
        release: The oldest possible release of Kafka; empty if unknown.
    """

    cluster_id: str | None
    release: str


def releases(config: HubConfig) -> dict[str, str]:
    """The release of Kafka that a broker of each cluster speaks at least; central under an empty name.

    The first address of each is asked; one that does not answer has an empty one.
    """
    clusters: Mapping[str, ClusterConfig] = {"": config.central, **config.edges}
    return map_concurrently(lambda name: _release(clusters[name]), clusters)


def _release(cluster: ClusterConfig) -> str:
    address = Address.parse(cluster.bootstrap_servers.partition(",")[0])
    try:
        encryption = context(cluster.client) if is_encrypted(cluster.client) else None
    except AggregatorError:
        return ""  # the client reports the same error, with the next step
    found = probe(address, cluster.client, encryption, timeout_s=_TIMEOUT_S)
    return release(found.versions) if found.versions else ""


def introduction(config: HubConfig, greeted: Mapping[str, Greeted]) -> str:
    """The line that a hub logs of itself when it starts.

    Args:
        config: The hub's configuration.
        greeted: The answer of each cluster, by edge; central under an empty name.
    """
    clusters: Mapping[str, ClusterConfig] = {"": config.central, **config.edges}
    told = [f"{_named(name)} {_cluster_text(cluster, greeted[name])}" for name, cluster in clusters.items()]
    return f"hub {config.hub}, aggregator {version('aggregator')}: {'; '.join(told)}"


def _named(name: str) -> str:
    return f"edge {name}" if name else "central"


def _cluster_text(cluster: ClusterConfig, greeted: Greeted) -> str:
    where = f"at {cluster.bootstrap_servers}"
    protocol = str(cluster.client.get("security.protocol", "plaintext")).upper()
    if greeted.cluster_id is None:
        return f"does not answer {where} ({protocol})"
    known = f"Kafka {greeted.release} or newer" if greeted.release else "its release is not known"
    which = f"is cluster {greeted.cluster_id}" if greeted.cluster_id else "is a cluster that tells no id"
    return f"{which} {where} ({protocol}, {known})"
