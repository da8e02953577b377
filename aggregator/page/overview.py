"""Builds the start page: the state of the hub, each edge, what is stripped, the lake, backfills, and the newest
changes.

Invariant: pure. Every number is the snapshot's own. Long lists are cut short, and say so.
"""

from dataclasses import dataclass
from itertools import accumulate

from aggregator.backfill.backfill_state import BackfillState
from aggregator.backfill.monitor import Progress
from aggregator.edges.availability import AvailabilityState
from aggregator.lake.status import TableStatus
from aggregator.observe.formatting import ago
from aggregator.observe.hub_status import EdgeStatus, known
from aggregator.observe.snapshot import Snapshot
from aggregator.page.attention import Need, needs, needs_somebody
from aggregator.page.charts import ChartLine, line
from aggregator.page.picture import Picture, picture
from aggregator.page.states import STARTING, UNWATCHED, Badge, badge_of, badness
from aggregator.page.stripped_fields import StrippedTopic, stripped
from aggregator.page.timeline import Past, StateChange, changes, pasts, window_of

_SPARK_S = 60
_SMOOTH_S = 5
_MAX_NEEDS, _MAX_TOPICS, _MAX_TABLES, _MAX_BACKFILLS, _MAX_CHANGES = 50, 60, 60, 20, 12


@dataclass(frozen=True, slots=True)
class EdgeRow:
    """Describes one edge in the list of edges.

    Attributes:
        edge: The edge's status in the snapshot.
        badge: The badge of the edge's state.
        age: How long the edge has been in that state.
        per_s: Records a second now.
        line: The line of its rate over the last minute.
        needs: It is among those that need somebody, where its reason is told.
    """

    edge: EdgeStatus
    badge: Badge
    age: str
    per_s: float
    line: ChartLine
    needs: bool


@dataclass(frozen=True, slots=True)
class Overview:
    """Holds everything on the start page.

    Attributes:
        seen: The snapshot.
        headline: The whole hub in a sentence.
        badge: The badge of that state.
        picture: The hub and its edges.
        needs: What needs somebody.
        needs_more: Number of needs that are not shown.
        edges: One row per edge.
        per_s: Records a second, all edges.
        lag_records: What waits at the edges that tell it; None: no edge tells.
        untold: Edges of which nobody knows what waits.
        dead: Dead letters since the first start.
        stripped: Topics with what is stripped.
        stripped_more: Number of stripped topics that are not shown.
        unclassified: Fields that nobody classified.
        lake: Tables.
        lake_more: Number of tables that are not shown.
        backfills: The newest first.
        backfills_more: Number of backfills that are not shown.
        window: Period that the bars cover.
        pasts: One bar per edge.
        changes: The newest changes of states.
    """

    seen: Snapshot
    headline: str
    badge: Badge
    picture: Picture
    needs: tuple[Need, ...]
    needs_more: int
    edges: tuple[EdgeRow, ...]
    per_s: float
    lag_records: int | None
    untold: tuple[str, ...]
    dead: int
    stripped: tuple[StrippedTopic, ...]
    stripped_more: int
    unclassified: int
    lake: tuple[TableStatus, ...]
    lake_more: int
    backfills: tuple[Progress, ...]
    backfills_more: int
    window: str
    pasts: tuple[Past, ...]
    changes: tuple[StateChange, ...]


def overview(seen: Snapshot) -> Overview:
    """The view of the start page."""
    status = seen.status
    rows = tuple(edge_row(seen, edge) for edge in status.edges)
    per_s = {row.edge.edge: row.per_s for row in rows}
    found, fields = needs(seen), stripped(seen.fields, (edge.edge for edge in status.edges))
    headline, badge = _headline(seen)
    window = window_of(seen.history, seen.at_ms)
    backfills = sorted(seen.backfills, key=lambda one: (one.state not in _OPEN, -one.at_ms))
    return Overview(
        seen,
        headline,
        badge,
        picture(status.edges, per_s),
        found[:_MAX_NEEDS],
        max(0, len(found) - _MAX_NEEDS),
        rows,
        sum(per_s.values()),
        known([edge.lag_records for edge in status.edges], sum),
        tuple(edge.edge for edge in status.edges if edge.lag_records is None),
        sum(edge.dead for edge in status.edges),
        fields[:_MAX_TOPICS],
        max(0, len(fields) - _MAX_TOPICS),
        sum(len(topic.unclassified) for topic in fields),
        status.lake[:_MAX_TABLES],
        max(0, len(status.lake) - _MAX_TABLES),
        tuple(backfills[:_MAX_BACKFILLS]),
        max(0, len(backfills) - _MAX_BACKFILLS),
        window,
        pasts(seen.history, now_ms=seen.at_ms, window=window),
        changes(seen.history, now_ms=seen.at_ms, most=_MAX_CHANGES),
    )


# States of an edge that answers, but whose records come late.
_LATE = (AvailabilityState.LAGGING, AvailabilityState.STALLED)
_BEHIND = badge_of(AvailabilityState.STALLED)
_OPEN = (BackfillState.RUNNING, BackfillState.UNFINISHED)


def edge_row(seen: Snapshot, edge: EdgeStatus) -> EdgeRow:
    """The row of one edge, with its rate."""
    values = _smooth(seen.throughput.get(edge.edge, ()))
    age = "" if edge.since_ms is None else ago(max(0, seen.at_ms - edge.since_ms))
    return EdgeRow(
        edge,
        badge_of(edge.state),
        age,
        values[-1] if values else 0.0,
        line(values, places=_SPARK_S),
        needs_somebody(edge),
    )


def _smooth(values: tuple[float, ...]) -> tuple[float, ...]:
    """Means over some seconds: transactions come in beats of their own."""
    sums = tuple(accumulate(values, initial=0.0))
    ends = range(1, len(sums))
    return tuple((sums[end] - sums[max(0, end - _SMOOTH_S)]) / min(end, _SMOOTH_S) for end in ends)


def _headline(seen: Snapshot) -> tuple[str, Badge]:
    """The whole hub in a sentence, with its badge."""
    edges = seen.status.edges
    if not seen.status.watched:
        return "No hub runs: this is what one watcher sees", UNWATCHED
    bad = [edge for edge in edges if badness(edge.state) > 0]
    if bad and not seen.slots and all(edge.state in _LATE for edge in bad):
        return "The hub is starting: no slot runs yet", STARTING
    if len(bad) > 1 and all(edge.state in _LATE or edge.state == AvailabilityState.PAUSED for edge in edges):
        return f"The hub is behind: none of {len(edges)} edges keeps up, though all of them answer", _BEHIND
    if bad:
        worst = max(bad, key=lambda edge: badness(edge.state))
        which = f"{worst.edge} is" if len(bad) == 1 else f"{len(bad)} of {len(edges)} edges are"
        words = dict.fromkeys(
            badge_of(edge.state).label.lower() for edge in sorted(bad, key=lambda one: -badness(one.state))
        )
        return f"{which} {' or '.join(words)}", badge_of(worst.state)
    paused = [edge for edge in edges if edge.state == AvailabilityState.PAUSED]
    if paused:
        which = f"{paused[0].edge} is" if len(paused) == 1 else f"{len(paused)} of {len(edges)} edges are"
        return f"{which} paused, the rest is up" if len(paused) < len(edges) else f"{which} paused", badge_of(
            AvailabilityState.PAUSED
        )
    said = "The edge is up" if len(edges) == 1 else f"All {len(edges)} edges are up"
    return said if seen.status.healthy else f"{said}, and something waits for you", badge_of(AvailabilityState.UP)
