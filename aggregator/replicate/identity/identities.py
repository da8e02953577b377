"""This module asks every configured cluster for its id, and asks central which clusters the names have stood for.

Invariant: this module only reads. Clusters are asked in parallel, so several that do not answer cost one time-out
together.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.errors import FatalError, HoldError, Unreachable
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.admin_answers import TIMEOUT_S
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata
from aggregator.kafka.readers.log import read_visible
from aggregator.replicate.identity.clusters import ClusterGuard, KnownClusters, identities, refuse_central
from aggregator.state.cluster_acceptances import ClusterAcceptance
from aggregator.state.control import ControlState, fold
from aggregator.state.names import HubNames
from aggregator.state.request_log import read_requests
from aggregator.threads import map_concurrently

_PATIENCE_S = 5.0


def fetch_cluster_id(cluster: ClusterConfig) -> str | None:
    """The id that a cluster tells; empty: it tells none; None: nobody answers."""
    try:
        return cluster_metadata(cluster, timeout_s=_PATIENCE_S).cluster_id
    except Unreachable:
        return None


def fetch_cluster_ids(config: HubConfig) -> tuple[str | None, dict[str, str | None]]:
    """The ids of central and of every edge by name, as `fetch_cluster_id` tells them."""
    clusters: Mapping[str, ClusterConfig] = {"": config.central, **config.edges}
    found = map_concurrently(lambda name: fetch_cluster_id(clusters[name]), clusters)
    return found[""], {edge: found[edge] for edge in config.edges}


def identify(
    guard: ClusterGuard, config: HubConfig, kept: Mapping[str, str], said: Mapping[str, ClusterAcceptance]
) -> None:
    """Tell a guard which cluster each name has stood for, once central is known to be the hub's own.

    Args:
        guard: Judges the clusters that answer from now on.
        config: The hub.
        kept: Ids by name, of the control topic.
        said: What people have decided of new clusters.

    Raises:
        ConfigError: central is another one.
        Unreachable: central does not answer.
    """
    seen = cluster_metadata(config.central, timeout_s=TIMEOUT_S)
    known = KnownClusters.of(config, kept, said)
    refuse_central(seen.cluster_id, known)
    guard.learn(seen.cluster_id, known)


def require_own_clusters(config: HubConfig, edges: Iterable[str]) -> None:
    """Refuse to look at edges in whose place other clusters answer.

    Raises:
        HoldError: names each such edge.
        Unreachable: central does not answer.
    """
    known, central = known_clusters(config), fetch_cluster_id(config.central) or ""
    wanted = sorted(edges)
    shown = map_concurrently(lambda edge: fetch_cluster_id(config.edges[edge]), wanted)
    found = [one.why for one in identities(central, shown, known) if one.why]
    if found:
        raise HoldError(found, hint="aggregator doctor shows which cluster answers under each name")


def known_clusters(config: HubConfig, acceptances: Mapping[str, ClusterAcceptance] | None = None) -> KnownClusters:
    """What the names of a configuration have stood for, as far as it is visible; nothing before the hub's first run.

    Where a control record is damaged nothing is known: a run refuses it by name, and who only looks sees the rest.

    Args:
        config: The hub.
        acceptances: What people decided, for whoever has read the requests already.

    Raises:
        Unreachable: central does not answer.
    """
    names = HubNames(config.hub)
    kept: Mapping[str, str] = {}
    if not topics.partition_count(config.central, names.control):
        return KnownClusters({}, {})
    with suppress(FatalError):
        kept = fold(ControlState(), read_visible(config.central, names.control, [0]), names.control).clusters
    if acceptances is None:
        acceptances = read_requests(config.central, names).acceptances
    return KnownClusters.of(config, kept, acceptances)
