"""Builds the page of one edge: its state and past, its topics and partitions, what stands still, and what is not
replicated.

Invariant: pure. Why a topic is or is not replicated comes from `plan.explanation`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from aggregator.edges.history import WINDOWS_MS
from aggregator.observe.gaps import KnownGap
from aggregator.observe.hub_status import EdgeStatus, FlowStatus
from aggregator.observe.selection import TopicFlows, by_topic
from aggregator.observe.snapshot import Snapshot
from aggregator.page.overview import EdgeRow, edge_row
from aggregator.page.stripped_fields import StrippedTopic, stripped
from aggregator.page.timeline import Past, StateChange, changes, pasts
from aggregator.plan.explanation import RuleMatch

_MAX_CHANGES, _MAX_LEFT, _MAX_GAPS = 50, 200, 50
# So many flowing topics are shown unfolded, beside all topics that stand still.
_MAX_OPEN = 20
Judging = Callable[[str, str], RuleMatch]


class TopicRow(NamedTuple):
    """Describes one topic that has flows.

    Attributes:
        topic: The topic's name.
        per_s: Records a second now.
        flows: The flows of its partitions.
        lag_records: The number of records that wait.
        lag_ms: Time that the oldest of them has waited.
        margin_ms: Time until the edge deletes the first unread record.
        delivered: Records that were delivered.
        dead: Records that became dead letters.
        why: Why it stands still, or is not replicated any more; empty: it flows.
    """

    topic: str
    per_s: float
    flows: tuple[FlowStatus, ...]
    lag_records: int | None
    lag_ms: int | None
    margin_ms: int | None
    delivered: int
    dead: int
    why: str


class LeftTopic(NamedTuple):
    """One topic of the edge that has no flow."""

    topic: str
    partitions: int
    wanted: bool
    why: str


@dataclass(frozen=True, slots=True)
class EdgePage:
    """Holds everything on the page of an edge.

    Attributes:
        row: As on the start page.
        topics: Those that have flows; those that stand still first.
        topics_open: How many of these are not folded away.
        left: Those that have none, with why.
        left_more: How many of these are not shown.
        letters: Dead letters by topic and reason.
        gaps: Open and decided ones.
        gaps_more: How many are not shown.
        returned: Topics in which records said that they had been here: how many came back, how many were not theirs.
        stripped: What is stripped.
        bars: Its past, by window.
        changes: Of its state.
    """

    row: EdgeRow
    topics: tuple[TopicRow, ...]
    topics_open: int
    left: tuple[LeftTopic, ...]
    left_more: int
    letters: tuple[tuple[str, str, int], ...]
    gaps: tuple[KnownGap, ...]
    gaps_more: int
    returned: tuple[tuple[str, int, int], ...]
    stripped: tuple[StrippedTopic, ...]
    bars: tuple[tuple[str, Past], ...]
    changes: tuple[StateChange, ...]


def edge_page(seen: Snapshot, edge: EdgeStatus, judged: Judging) -> EdgePage:
    """The view of the page of one edge.

    Args:
        seen: The snapshot of the hub.
        edge: The status of the edge in the snapshot.
        judged: Says of an edge and a topic whether it is replicated, and why.
    """
    name = edge.edge
    history = {name: seen.history.get(name, ())}
    of_edge = tuple(by_topic(flow for flow in seen.status.flows if flow.edge == name))
    topics = _topics(seen, of_edge, name, judged)
    left = _left(seen, name, {row.topic for row in topics}, judged)
    gaps = tuple(sorted((gap for gap in seen.gaps if gap.source.edge == name), key=lambda one: -one.gap.since_ms))
    letters = sorted((topic, reason, count) for (of, topic, reason), count in seen.letters.items() if of == name)
    bars = tuple((window, pasts(history, now_ms=seen.at_ms, window=window)[0]) for window in WINDOWS_MS)
    return EdgePage(
        edge_row(seen, edge),
        topics,
        _open(topics),
        left[:_MAX_LEFT],
        max(0, len(left) - _MAX_LEFT),
        tuple(letters),
        gaps[:_MAX_GAPS],
        max(0, len(gaps) - _MAX_GAPS),
        tuple((one.topic, one.cycles, one.forged) for one in of_edge if one.cycles or one.forged),
        stripped(seen.fields, [name]),
        bars,
        changes(history, now_ms=seen.at_ms, most=_MAX_CHANGES),
    )


def _open(topics: Sequence[TopicRow]) -> int:
    """Every topic that stands still, and some that flow; a few more are no reason to fold them."""
    shown = sum(bool(row.why) for row in topics) + _MAX_OPEN
    return len(topics) if len(topics) <= shown + _MAX_OPEN // 2 else shown


def _topics(seen: Snapshot, of_edge: Iterable[TopicFlows], edge: str, judged: Judging) -> tuple[TopicRow, ...]:
    per_s: dict[str, float] = defaultdict(float)
    for source, rate in seen.rates.items():
        if source.edge == edge:
            per_s[source.topic] += rate
    rows = [
        TopicRow(
            one.topic,
            per_s[one.topic],
            one.flows,
            one.lag_records,
            one.lag_ms,
            one.retention_margin_ms,
            one.delivered,
            one.dead,
            _standing(one.flows, judged(edge, one.topic)),
        )
        for one in of_edge
    ]
    return tuple(sorted(rows, key=lambda row: (not row.why, row.topic)))


def _standing(flows: Sequence[FlowStatus], matched: RuleMatch) -> str:
    """Why some of a topic's flows are not read; empty where all are."""
    if not matched.replicated:
        return matched.why
    for flow in flows:
        if flow.gap:
            return f"held: {flow.gap.kind.value} {flow.gap} in partition {flow.partition}"
    troubled = [flow for flow in flows if flow.trouble]
    return troubled[0].trouble.partition("\n")[0] if troubled else ""


def _left(seen: Snapshot, edge: str, flowing: set[str], judged: Judging) -> tuple[LeftTopic, ...]:
    found, held = [], dict[str, str]()
    for source, why in seen.refused.items():
        if source.edge == edge:
            held.setdefault(source.topic, why.detail)
    for topic, partitions in seen.topics.get(edge, {}).items():
        if topic not in flowing:
            matched = judged(edge, topic)
            waits = f"held: {held[topic]}" if topic in held else "a rule wants it; no slot has taken it yet"
            found.append(LeftTopic(topic, partitions, matched.replicated, waits if matched.replicated else matched.why))
    return tuple(sorted(found, key=lambda one: (not one.wanted, one.topic)))
