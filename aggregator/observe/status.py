"""Status: edges, flows and the lake, composed from the ledger, the edges' ends and central's heartbeats.

Invariant: reads only; an edge that does not answer costs its time-out once, beside the others, and its flows are
still shown from the ledger.
"""

from dataclasses import asdict, dataclass
from typing import Any

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import Observation, judge
from aggregator.kafka import ends, topics
from aggregator.kafka.gap import Gap
from aggregator.kafka.ledger import LedgerRecord
from aggregator.kafka.names import central_heartbeats
from aggregator.lake.status import TableStatus, lake_status
from aggregator.observe.gaps import KnownGap, unsettled
from aggregator.observe.look import EdgeLook
from aggregator.observe.survey import survey


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow: `lag_records` is an upper bound, because markers and aborted records count; None: edge unreachable.

    `retention_margin_ms` is the time until the edge deletes what is not yet read; None where nothing waits, nothing is
    ever deleted, or nobody knows. `gap` is what holds the flow.
    """

    edge: str
    topic: str
    partition: int
    incarnation: int
    next_offset: int
    end_offset: int | None
    lag_records: int | None
    lag_ms: int | None
    delivered: int
    dead: int
    suppressed: int
    stripped: int
    retention_margin_ms: int | None
    gap: Gap | None


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """One edge, judged."""

    edge: str
    state: str
    reason: str
    heartbeat_age_ms: int | None
    lag_records: int | None
    lag_ms: int | None
    dead: int
    flows: int


@dataclass(frozen=True, slots=True)
class HubStatus:
    """Everything that `aggregator status` shows."""

    hub: str
    edges: tuple[EdgeStatus, ...]
    flows: tuple[FlowStatus, ...]
    gaps: tuple[KnownGap, ...]
    lake: tuple[TableStatus, ...]

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`."""
        return {
            "hub": self.hub,
            "edges": [asdict(edge) for edge in self.edges],
            "flows": [asdict(flow) | {"gap": _plain_gap(flow.gap)} for flow in self.flows],
            "gaps": [gap.plain() for gap in self.gaps],
            "lake": [_plain_table(table) for table in self.lake],
        }


def _plain_gap(lost: Gap | None) -> dict[str, int | None] | None:
    return {"start": lost.start, "end": lost.end} if lost else None


def _plain_table(table: TableStatus) -> dict[str, Any]:
    return {
        "table": table.table,
        "version": table.version,
        "rows": table.rows,
        "lag_records": table.lag_records,
        "committed_ms": table.committed_ms,
        "problem": table.problem,
        "positions": [
            {
                "topic": at.topic,
                "partition": at.partition,
                "next_offset": offset,
                "end_offset": table.end_offsets.get(at),
            }
            for at, offset in sorted(table.next_offsets.items())
        ],
    }


def hub_status(config: HubConfig, *, now_ms: int) -> HubStatus:
    """Look at everything once.

    Args:
        config: The hub.
        now_ms: The reader's present, in ms.

    Raises:
        Unreachable: central does not answer.
        Failed: the ledger is damaged.
    """
    found = survey(config, now_ms=now_ms)
    ledger, looked, holds = found.ledger, found.looked, tuple(unsettled(found.gaps))
    beats = _heartbeats(config)
    holding = {gap.source: gap.gap for gap in holds}
    flows = {
        edge: [
            _flow(source, ledger[source], seen, holding.get(source), now_ms)
            for source in sorted(ledger)
            if source.edge == edge
        ]
        for edge, seen in looked.items()
    }
    edges = tuple(
        _edge(edge, flows[edge], answers=seen.answers, beat_ms=beats.get(edge), now_ms=now_ms)
        for edge, seen in looked.items()
    )
    return HubStatus(
        config.hub,
        edges,
        tuple(flow for shown in flows.values() for flow in shown),
        holds,
        tuple(lake_status(config)) if config.lake else (),
    )


def _heartbeats(config: HubConfig) -> dict[str, int]:
    """Arrival of each edge's last beat at central, in central's ms."""
    there = topics.topic_names(config.central)
    wanted = {central_heartbeats(edge): edge for edge in config.edges if central_heartbeats(edge) in there}
    found = ends.last_timestamps(config.central, [(topic, 0) for topic in wanted])
    return {wanted[topic]: timestamp for (topic, _), timestamp in found.items()}


def _flow(source: EdgePartition, entry: LedgerRecord, seen: EdgeLook, lost: Gap | None, now_ms: int) -> FlowStatus:
    log, margin = seen.logs.get(source), seen.margins.get(source)
    late = max(0, now_ms - seen.unread_ms[source]) if source in seen.unread_ms else 0
    return FlowStatus(
        *source,
        incarnation=entry.incarnation,
        next_offset=entry.next_offset,
        end_offset=log.end if log else None,
        lag_records=max(0, log.end - entry.next_offset) if log else None,
        lag_ms=late if log else None,
        delivered=entry.delivered,
        dead=entry.dead,
        suppressed=entry.suppressed,
        stripped=entry.stripped,
        retention_margin_ms=margin.left_ms if margin else None,
        gap=lost,
    )


def _edge(edge: str, flows: list[FlowStatus], *, answers: bool, beat_ms: int | None, now_ms: int) -> EdgeStatus:
    known = [flow.lag_records for flow in flows if flow.lag_records is not None]
    late = [flow.lag_ms for flow in flows if flow.lag_ms is not None]
    age = None if beat_ms is None else max(0, now_ms - beat_ms)
    lag_ms = max(late) if late else None
    state, reason = judge(Observation(answers, age, lag_ms, sum(flow.gap is not None for flow in flows)))
    dead = sum(flow.dead for flow in flows)
    return EdgeStatus(edge, state.value, reason, age, sum(known) if known else None, lag_ms, dead, len(flows))
