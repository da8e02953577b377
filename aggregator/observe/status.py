"""Status: edges, flows and the lake, composed from the ledger, the edges' ends and central's heartbeats.

Invariant: reads only; an edge that does not answer costs its time-out once, beside the others, and its flows are
still shown from the ledger.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.edges.availability import Observation, judge
from aggregator.errors import Unreachable
from aggregator.kafka import ends, peek, topics
from aggregator.kafka.ledger import LedgerRecord, read_ledger
from aggregator.kafka.names import HubNames, central_heartbeats
from aggregator.lake.status import TableStatus, lake_status
from aggregator.replicate.gaps import gap

_EDGE_TIMEOUT_S = 5.0
_PEEK_S = 2.0


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow: `lag_records` is an upper bound, because markers and aborted records count; None: edge unreachable."""

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
    gap: OffsetRange | None


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
    lake: tuple[TableStatus, ...]

    def plain(self) -> dict[str, Any]:
        """The contract of `-o json`."""
        return {
            "hub": self.hub,
            "edges": [asdict(edge) for edge in self.edges],
            "flows": [asdict(flow) | {"gap": flow.gap._asdict() if flow.gap else None} for flow in self.flows],
            "lake": [_plain_table(table) for table in self.lake],
        }


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
    ledger = read_ledger(config.central, HubNames(config.hub))
    beats = _heartbeats(config)
    with ThreadPoolExecutor(max(1, len(config.edges))) as pool:
        looked = dict(
            zip(config.edges, pool.map(lambda edge: _look(config, edge, ledger, now_ms), config.edges), strict=True)
        )
    flows = tuple(flow for shown, _ in looked.values() for flow in shown)
    edges = tuple(
        _edge(edge, shown, answers=answers, beat_ms=beats.get(edge), now_ms=now_ms)
        for edge, (shown, answers) in looked.items()
    )
    return HubStatus(config.hub, edges, flows, tuple(lake_status(config)) if config.lake else ())


def _heartbeats(config: HubConfig) -> dict[str, int]:
    """Arrival of each edge's last beat at central, in central's ms."""
    there = topics.topic_names(config.central)
    wanted = {central_heartbeats(edge): edge for edge in config.edges if central_heartbeats(edge) in there}
    found = ends.last_timestamps(config.central, [(topic, 0) for topic in wanted])
    return {wanted[topic]: timestamp for (topic, _), timestamp in found.items()}


def _look(
    config: HubConfig, edge: str, ledger: Mapping[EdgePartition, LedgerRecord], now_ms: int
) -> tuple[list[FlowStatus], bool]:
    entries = {source: entry for source, entry in sorted(ledger.items()) if source.edge == edge}
    cluster = config.edges[edge]
    try:
        shown = topics.topic_names(cluster, timeout_s=_EDGE_TIMEOUT_S)
        at = [(s.topic, s.partition) for s in entries if s.partition < shown.get(s.topic, 0)]
        starts = ends.start_offsets(cluster, at, timeout_s=_EDGE_TIMEOUT_S)
        stable = ends.stable_end_offsets(cluster, at, timeout_s=_EDGE_TIMEOUT_S)
        waiting = {
            (s.topic, s.partition): entry.next_offset
            for s, entry in entries.items()
            if entry.next_offset < stable.get((s.topic, s.partition), 0)
        }
        oldest = peek.timestamps_at(cluster, waiting, patience_s=_PEEK_S)
    except Unreachable:
        return [_flow(source, entry, None, None, None) for source, entry in entries.items()], False
    flows = []
    for source, entry in entries.items():
        place = (source.topic, source.partition)
        log = OffsetRange(starts[place], stable[place]) if place in starts else None
        late = max(0, now_ms - oldest[place]) if place in oldest else 0
        flows.append(_flow(source, entry, log, late, gap(entry.next_offset, *log) if log else None))
    return flows, True


def _flow(
    source: EdgePartition, entry: LedgerRecord, log: OffsetRange | None, lag_ms: int | None, lost: OffsetRange | None
) -> FlowStatus:
    return FlowStatus(
        *source,
        incarnation=entry.incarnation,
        next_offset=entry.next_offset,
        end_offset=log.end if log else None,
        lag_records=max(0, log.end - entry.next_offset) if log else None,
        lag_ms=lag_ms,
        delivered=entry.delivered,
        dead=entry.dead,
        suppressed=entry.suppressed,
        stripped=entry.stripped,
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
