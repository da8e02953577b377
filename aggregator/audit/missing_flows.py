"""Finds edge partitions that the configuration wants and the ledger does not know: none of their records was ever
delivered.

Invariant: this module only reads. A partition without a record is left out. An edge that does not answer is reported.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from aggregator.audit.findings import FlowAudit, Selection
from aggregator.audit.omissions import FLOW, Omission
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition, OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.replicate.discovery.edge_topic import start_of


@dataclass(slots=True)
class Unbegun:
    """Lists the flows that never began, and the questions without an answer.

    Attributes:
        flows: Partitions with records and without a position.
        troubles: What could not be asked, by what it is about.
    """

    flows: list[FlowAudit] = field(default_factory=list)
    troubles: list[tuple[str, Omission]] = field(default_factory=list)


def never_begun(
    config: HubConfig,
    ledger: Collection[EdgePartition],
    selection: Selection,
    held: Mapping[str, str],
    *,
    skip: Collection[str],
) -> Unbegun:
    """Ask every edge for the partitions that it should have a position of.

    Args:
        config: The hub.
        ledger: Flows that have a position.
        selection: The requested flows.
        held: Why flows are not read, as the hub said last.
        skip: Edges that do not answer.
    """
    found = Unbegun()
    for edge in config.edges:
        if edge in skip or selection.edge not in (None, edge):
            continue
        try:
            found.flows += _of_edge(config, edge, ledger, selection, held)
        except Unreachable as error:
            found.troubles.append((f"edge {edge}", Omission(FLOW, "unreachable", error.message)))
    return found


def wanted_topics(config: HubConfig, edge: str) -> list[str]:
    """Topics of an edge that a rule takes, heartbeats apart.

    Raises:
        Unreachable: the edge does not answer.
    """
    names = topics.topic_names(config.edges[edge])
    return [name for name in names if name != HEARTBEATS and start_of(config, edge, name) is not None]


def _of_edge(
    config: HubConfig,
    edge: str,
    ledger: Collection[EdgePartition],
    selection: Selection,
    held: Mapping[str, str],
) -> list[FlowAudit]:
    cluster = config.edges[edge]
    names = wanted_topics(config, edge)
    shown = topics.described(cluster, [name for name in names if selection.topic in (None, name)])
    sources = [EdgePartition(edge, name, number) for name, one in shown.items() for number in range(one.partitions)]
    fresh = {(one.topic, one.partition): one for one in sources if one not in ledger and selection.takes(one)}
    if not fresh:
        return []
    logs = ends.log_offsets(cluster, fresh.keys())
    return [
        FlowAudit(source, 0, not_yet=len(offsets), omissions=(_omission(source, offsets, held),))
        for at, source in sorted(fresh.items())
        if len(offsets := OffsetRange(logs[at].start, logs[at].high_watermark))
    ]


def _omission(source: EdgePartition, offsets: OffsetRange, held: Mapping[str, str]) -> Omission:
    why = held.get(str(source)) or "the hub has no position of it: it has not begun to read it, or holds it"
    return Omission(FLOW, "not_begun", why, (offsets,), len(offsets))
