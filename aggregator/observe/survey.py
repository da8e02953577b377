"""A survey: the ledger, the answers of every edge, and every gap that follows from both.

Invariant: this module only reads. It reads the ledger first, and then looks at all edges at the same time. An edge that
does not answer costs its time-out once.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.observe.edge_snapshot import EdgeSnapshot, edge_snapshot
from aggregator.observe.gaps import KnownGap, known_gaps
from aggregator.replicate.identity.clusters import Identity, foreign_cluster, identities
from aggregator.replicate.identity.identities import fetch_cluster_id, known_clusters
from aggregator.state.gap import GapDecision
from aggregator.state.ledger import LedgerRecord
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.pauses import Pause
from aggregator.state.request_log import read_requests
from aggregator.threads import map_concurrently


@dataclass(frozen=True, slots=True)
class Survey:
    """Holds what a survey found.

    Attributes:
        ledger: The winning ledger records.
        decisions: All decisions about gaps.
        edges: What each edge showed, asked at second 0 of the reader's clock.
        gaps: Every gap, open or decided.
        pauses: The newest pause or resumption of each edge that ever was paused.
        clusters: The identity of the cluster that answers under each name.
    """

    ledger: Mapping[EdgePartition, LedgerRecord]
    decisions: tuple[GapDecision, ...]
    edges: Mapping[str, EdgeSnapshot]
    gaps: tuple[KnownGap, ...]
    pauses: Mapping[str, Pause]
    clusters: tuple[Identity, ...] = ()


def survey(config: HubConfig, *, now_ms: int) -> Survey:
    """Look at central and at every edge once.

    Args:
        config: The hub.
        now_ms: The reader's present, in ms.

    Raises:
        Unreachable: central does not answer.
        FatalError: the ledger or a request is damaged.
    """
    names = HubNames(config.hub)
    ledger, requests = read_ledger(config.central, names), read_requests(config.central, names)

    known, central = known_clusters(config, requests.acceptances), fetch_cluster_id(config.central) or ""

    def judge(edge: str, shown: str) -> str:
        return foreign_cluster(edge, shown, known, central, {})

    def one(edge: str) -> EdgeSnapshot:
        own = {source: entry for source, entry in ledger.items() if source.edge == edge}
        return edge_snapshot(config, edge, own, now_s=0.0, now_ms=now_ms, judge=judge)

    edges = map_concurrently(one, config.edges)
    lacking = {source: lost for seen in edges.values() for source, (_, lost) in seen.gaps.items()}
    gaps = known_gaps(ledger, lacking, requests.decisions)
    shown = {edge: None if _is_silent(seen) else seen.answer.cluster_id for edge, seen in edges.items()}
    clusters = identities(central, shown, known)
    return Survey(ledger, requests.decisions, edges, gaps, requests.pauses, clusters)


def _is_silent(seen: EdgeSnapshot) -> bool:
    return seen.logs is None and not seen.answer.foreign
