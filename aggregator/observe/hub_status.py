"""Describes a hub at one moment for status, metrics and page: its flows, its edges, its gaps and its tables.

Invariant: frozen. The names are the contract of `-o json`. Unknown values are None.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

from aggregator.backfill.backfill_state import Backfill
from aggregator.config.waivers import Waiver
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import AvailabilityState
from aggregator.edges.history import Uptime
from aggregator.lake.status import TableStatus
from aggregator.observe.gaps import KnownGap
from aggregator.observe.rights import MissingRights
from aggregator.offsets.published_positions import GroupPosition
from aggregator.replicate.discovery.topic_settings import Drift
from aggregator.replicate.identity.clusters import Identity
from aggregator.state.edge_status import EdgeState
from aggregator.state.gap import Gap
from aggregator.state.telemetry import SlotReport, StandStill
from aggregator.state.traffic import EdgeTraffic
from aggregator.threads import ThreadStatus


class Remedy(NamedTuple):
    """The command to run first for an edge that is not well, and what it does."""

    command: str
    effect: str

    def __str__(self) -> str:
        return f"{self.command} {self.effect}"


class Trouble(NamedTuple):
    """Why a flow is not read.

    Attributes:
        text: In words.
        held: The reason by which metrics count the flow; empty where it tries again by itself.
    """

    text: str = ""
    held: str = ""

    @classmethod
    def of_held(cls, why: StandStill) -> Self:
        """The trouble of a flow that is held."""
        return cls(f"held, {why.detail}", why.reason)


NO_TROUBLE = Trouble()


@dataclass(frozen=True, slots=True)
class FlowStatus:
    """One flow: `lag_records` is an upper bound, because markers and aborted records count; None: edge unreachable.

    `retention_margin_ms` is the time until the edge deletes what is not yet read; None where nothing waits, nothing is
    ever deleted, or nobody knows. `gap` is what the edge no longer has; `trouble` says why else a running hub does not
    read the flow now, in words; empty: it does. `held` is the reason by which metrics count it; empty: it tries again
    by itself. `undecided_records` are offsets behind the end that transactions at the edge hold back from every reader,
    an upper bound of records, and `undecided_ms` for how long.
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
    trouble: str = ""
    held: str = ""
    undecided_records: int | None = None
    undecided_ms: int | None = None
    cycles: int = 0
    forged: int = 0

    @property
    def source(self) -> EdgePartition:
        """The edge partition of the flow."""
        return EdgePartition(self.edge, self.topic, self.partition)

    @property
    def stands(self) -> bool:
        """Whether the flow is not read now."""
        return self.gap is not None or bool(self.trouble)


@dataclass(frozen=True, slots=True)
class EdgeStatus:
    """Describes the state of one edge.

    Attributes:
        edge: The edge's name.
        state: One word of `edges.availability.State`.
        reason: The reason for the state, in words.
        since_ms: When the state began, by central's clock; None where no hub watches.
        maintenance: Whether a maintenance window is open.
        heartbeat_age_ms: Since its last beat arrived at central.
        latency_ms: What the last beat took, from its writing to its arrival, by its writer's clock.
        skew_ms: The edge's clock less central's; None where nothing told.
        lag_records: What waits, an upper bound.
        lag_ms: How long the oldest of it has waited.
        retention_margin_ms: Until the edge deletes the first record that is not yet read.
        gaps: Flows that an open gap holds.
        dead: Dead letters of its records since the hub's first start.
        flows: How many flows it has.
        availability: By window: how available it was, and how much of the objective that spent.
        read_bytes: Received from it by the slots' readers since the hub's first start, on the wire.
        written_bytes: Of its records, written to central since then, before compression.
        read_bytes_per_s: Over the last half minute; None where nobody told.
        written_bytes_per_s: Over the last half minute, likewise.
        rate_limit_bytes_per_s: What its readers are held to; None: nothing.
    """

    edge: str
    state: str
    reason: str
    since_ms: int | None
    maintenance: bool
    heartbeat_age_ms: int | None
    latency_ms: int | None
    skew_ms: int | None
    lag_records: int | None
    lag_ms: int | None
    retention_margin_ms: int | None
    gaps: int
    dead: int
    flows: int
    availability: Mapping[str, Uptime]
    read_bytes: int = 0
    written_bytes: int = 0
    read_bytes_per_s: float | None = None
    written_bytes_per_s: float | None = None
    rate_limit_bytes_per_s: int | None = None

    @property
    def remedy(self) -> Remedy | None:
        """The command to run first for an edge in this state; None where the status tells what there is to know."""
        match self.state:
            case AvailabilityState.UNREACHABLE:
                return Remedy("aggregator doctor", "shows at which step the connection ends")
            case AvailabilityState.LOSING_DATA:
                return Remedy("aggregator gaps list", "shows what the edge no longer has")
            case AvailabilityState.PAUSED:
                return Remedy(f"aggregator edge resume {self.edge}", "lets it go on")
        return None


@dataclass(frozen=True, slots=True)
class HubStatus:
    """Everything that `aggregator status` shows.

    Attributes:
        hub: Its name.
        at_ms: When, by central's clock where a hub watches.
        watched: A running hub keeps watching the edges.
        edges: In the order of the configuration.
        flows: All of them.
        gaps: Those that hold a flow.
        lake: Its tables.
        backfills: Those that are neither finished nor cancelled.
        threads: Of the leading hub, as it told them last.
        slots: What the slots that run told last.
        refused: Flows that no slot got, as `edge/topic/partition`, with a word and a sentence why; also such as have no
            position yet, and are not among `flows`.
        objections: Why the leading hub did not take policies that changed; empty where it goes by those of the files.
        without_rule: Topics of each edge that no rule takes and no `exclude` names; where somebody looked once.
        waivers: Connections that are open, with the reasons.
        rights: What the hub's principals lack, by topic; None where nobody asked.
        drifts: Settings in which central's topics differ from their edges', where somebody looked once.
        clusters: Which cluster answers under each name.
        groups: Where groups of the edges would go on at central, as a hub told it last; where somebody looked once.
        unread: Why nothing of what the hub keeps at central could be read, if so; no flow is known then.
    """

    hub: str
    at_ms: int
    watched: bool
    edges: tuple[EdgeStatus, ...]
    flows: tuple[FlowStatus, ...]
    gaps: tuple[KnownGap, ...]
    lake: tuple[TableStatus, ...]
    backfills: tuple[Backfill, ...] = ()
    threads: tuple[ThreadStatus, ...] = ()
    slots: tuple[SlotReport, ...] = ()
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    rights: tuple[MissingRights, ...] | None = None
    drifts: tuple[Drift, ...] = ()
    clusters: tuple[Identity, ...] = ()
    groups: tuple[GroupPosition, ...] = ()
    unread: str = ""
    objections: tuple[str, ...] = ()
    without_rule: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def healthy(self) -> bool:
        """Whether a hub watches, its threads run, every edge is UP, and nothing waits for a person."""
        up = all(edge.state == AvailabilityState.UP for edge in self.edges)
        troubled = any(one.trouble for one in self.flows) or any(table.hold_reason for table in self.lake)
        runs = self.watched and all(one.is_well for one in self.threads)
        return (
            runs
            and not self.unread
            and up
            and not self.gaps
            and not troubled
            and not self.refused
            and not self.objections
            and not any(one.why for one in self.clusters)
        )

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a status."""
        return {
            "hub": self.hub,
            "at_ms": self.at_ms,
            "watched": self.watched,
            "unread": self.unread,
            "edges": [asdict(edge) for edge in self.edges],
            "flows": [asdict(flow) | {"gap": _plain_gap(flow.gap)} for flow in self.flows],
            "gaps": [gap.plain() for gap in self.gaps],
            "lake": [_plain_table(table, self.at_ms) for table in self.lake],
            "backfills": [one.plain() for one in self.backfills],
            "threads": [asdict(one) for one in self.threads],
            "slots": [
                {"slot": one.slot, "epoch": one.epoch, "aborts": one.aborts, "aborted": one.aborted}
                for one in self.slots
            ],
            "insecure": [one._asdict() for one in self.waivers],
            "rights": None if self.rights is None else [one.plain() for one in self.rights],
            "clusters": [one._asdict() for one in self.clusters],
            "drifts": [one.plain() for one in self.drifts],
            "groups": [one._asdict() for one in self.groups],
            "policies_refused": list(self.objections),
            "without_rule": {edge: list(topics) for edge, topics in self.without_rule.items()},
            "refused": [{"flow": flow, "reason": word, "detail": why} for flow, (word, why) in self.refused.items()],
        }


def _plain_gap(lost: Gap | None) -> dict[str, int | None] | None:
    return {"start": lost.start, "end": lost.end} if lost else None


def _plain_table(table: TableStatus, at_ms: int) -> dict[str, Any]:
    return {
        "table": table.table,
        "version": table.version,
        "rows": table.rows,
        "lag_records": table.lag_records,
        "committed_ms": table.committed_ms,
        "freshness_ms": table.freshness_ms(at_ms),
        "verdict": table.verdict,
        "audited_ms": table.audited_ms,
        "quarantined": table.quarantined,
        "out_of_range": table.out_of_range,
        "problem": table.problem,
        "held": [one.plain() for one in table.held],
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


def edge_status(
    edge: str,
    state: EdgeState,
    flows: Collection[FlowStatus],
    availability: Mapping[str, Uptime],
    *,
    since_ms: int | None,
    beat_age_ms: int | None,
    moved: EdgeTraffic,
    rate_limit: int | None,
) -> EdgeStatus:
    """One edge: its published state, the sums of its flows, and how fast its bytes move now."""
    return EdgeStatus(
        edge,
        state.state,
        state.reason,
        since_ms,
        state.maintenance,
        beat_age_ms,
        state.latency_ms,
        state.skew_ms,
        known([flow.lag_records for flow in flows], sum),
        known([flow.lag_ms for flow in flows], max),
        known([flow.retention_margin_ms for flow in flows], min),
        sum(flow.gap is not None for flow in flows),
        sum(flow.dead for flow in flows),
        len(flows),
        availability,
        state.read_bytes,
        state.written_bytes,
        moved.read_per_s,
        moved.written_per_s,
        rate_limit,
    )


def known(values: Iterable[int | None], fold: Callable[[list[int]], int]) -> int | None:
    """The sum (or whatever `fold` makes) of the values that are known; None where none is."""
    found = [value for value in values if value is not None]
    return fold(found) if found else None
