"""Holds what one edge showed of its flows: its last answer, its logs, and the gaps that follow from them.

Invariant: frozen. Each part has the moment at which it was asked for. An edge that does not answer also has a snapshot.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, Position
from aggregator.errors import Unreachable
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata
from aggregator.observe.edge_logs import TIMEOUT_S, EdgeLogs, edge_logs, gap_of
from aggregator.replicate.discovery.edge_watch import EdgeAnswer
from aggregator.state.gap import Gap
from aggregator.state.ledger import LedgerRecord

Entries = Mapping[EdgePartition, LedgerRecord]


@dataclass(frozen=True, slots=True)
class EdgeSnapshot:
    """The snapshot of one edge. Its moments are of the watcher's clock, which only goes forward.

    Attributes:
        answer: The edge's last answer.
        logs: What its logs have of the flows; None before they were asked for.
        logs_s: Time when the logs were asked for.
        gaps: Gaps of its flows, as far as they can be seen, each with the position that it was seen from.
        skew_ms: Its clock less that of whoever wrote its last heartbeat; None where it does not stamp them.
    """

    answer: EdgeAnswer = field(default_factory=EdgeAnswer)
    logs: EdgeLogs | None = None
    logs_s: float | None = None
    gaps: Mapping[EdgePartition, tuple[Position, Gap]] = field(default_factory=dict)
    skew_ms: int | None = None


def edge_snapshot(
    config: HubConfig,
    edge: str,
    entries: Entries,
    *,
    now_s: float,
    now_ms: int,
    judge: Callable[[str, str], str] | None = None,
) -> EdgeSnapshot:
    """Ask one edge for its cluster, its topics and its logs.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        entries: Its flows in the ledger.
        now_s: The present on the watcher's clock.
        now_ms: The reader's present.
        judge: Says why a cluster of an id is not this edge's, if so; None: somebody else has asked.
    """
    logs, answer, cluster_id = None, EdgeAnswer(), ""
    try:
        cluster_id, _, there = cluster_metadata(config.edges[edge], timeout_s=TIMEOUT_S)
        if why := judge(edge, cluster_id) if judge is not None else "":
            return EdgeSnapshot(EdgeAnswer(trouble=why, cluster_id=cluster_id, foreign=why))
        logs = edge_logs(config, edge, entries, there, now_ms=now_ms)
    except Unreachable as error:
        answer = EdgeAnswer(trouble=error.message)
    else:
        found_ends = {source: log.end for source, log in logs.ranges.items()}
        shown = {name: len(leaders) for name, leaders in there.items()}
        answer = EdgeAnswer(now_s, topics=shown, ends_s=now_s, ends=found_ends, cluster_id=cluster_id)
    found = {source: gap_of(config, source, entry, logs, now_ms=now_ms) for source, entry in entries.items()}
    gaps = {source: (entries[source].position, lost) for source, lost in found.items() if lost is not None}
    return EdgeSnapshot(answer, logs, None if logs is None else now_s, gaps)
