"""Selects parts of a hub's status (one edge, some topics, problems only), and sums its flows to one line for each
topic.

Invariant: pure. Entries that are not selected are left out of lists. The sums of an edge remain those of the whole
edge.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from aggregator.config.selection import Selection
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import AvailabilityState
from aggregator.observe.hub_status import FlowStatus, HubStatus, known


class StatusSelection(Selection):
    """Selects a part of a status; a problem is what needs somebody, or stands still."""

    def of(self, seen: HubStatus, feeds: Callable[[Iterable[EdgePartition]], Collection[str]]) -> HubStatus:
        """The selected part of a status.

        Args:
            seen: The whole status.
            feeds: Names of the tables that flows feed.
        """
        topics = {one.topic for one in seen.flows} | {one.source.topic for one in seen.gaps}
        topics |= {EdgePartition.parse(flow).topic for flow in seen.refused}
        chosen = self.topics(sorted(topics))
        clusters = [one for one in seen.clusters if self.takes_edge(one.name) and self.shows(one.why)]
        tables = [one for one in seen.lake if self.shows(one.hold_reason)]
        if self.edge or self.topic is not None:
            fed = feeds([one.source for one in seen.flows if self._takes(one.edge, one.topic, chosen)])
            tables = [one for one in tables if one.table in fed]
        return replace(
            seen,
            edges=tuple(
                one for one in seen.edges if self.takes_edge(one.edge) and self.shows(one.state != AvailabilityState.UP)
            ),
            flows=tuple(self._flows(seen.flows, chosen)),
            gaps=tuple(gap for gap in seen.gaps if self._takes(gap.source.edge, gap.source.topic, chosen)),
            refused={
                flow: why
                for flow, why in seen.refused.items()
                if self._takes(EdgePartition.parse(flow).edge, EdgePartition.parse(flow).topic, chosen)
            },
            clusters=tuple(clusters),
            lake=tuple(tables),
            groups=tuple(one for one in seen.groups if self.takes_edge(one.edge) and not self.problems),
            without_rule={edge: names for edge, names in self._unruled(seen) if self.takes_edge(edge) and names},
        )

    def _unruled(self, seen: HubStatus) -> Iterator[tuple[str, tuple[str, ...]]]:
        for edge, names in seen.without_rule.items():
            chosen = self.topics(list(names))
            yield edge, tuple(name for name in names if name in chosen)

    def _flows(self, flows: Iterable[FlowStatus], topics: frozenset[str]) -> Iterator[FlowStatus]:
        for one in flows:
            if self._takes(one.edge, one.topic, topics) and self.shows(one.stands):
                yield one

    def _takes(self, edge: str, topic: str, topics: frozenset[str]) -> bool:
        return self.takes_edge(edge) and topic in topics


class TopicFlows(NamedTuple):
    """The flows of one edge topic as one line. Each attribute is the sum over its flows, unless it says otherwise.

    Attributes:
        edge: Its edge.
        topic: As the edge calls it.
        flows: All of them.
        lag_records: What waits; None: nobody knows.
        lag_ms: Lag of the flow that is furthest behind.
        retention_margin_ms: Margin of the flow whose records are deleted first.
        delivered: Delivered records.
        dead: Dead letters.
        suppressed: Suppressed records.
        cycles: Records that came back, and are suppressed.
        forged: Records that said so of themselves, and are delivered.
    """

    edge: str
    topic: str
    flows: tuple[FlowStatus, ...]
    lag_records: int | None
    lag_ms: int | None
    retention_margin_ms: int | None
    delivered: int
    dead: int
    suppressed: int
    cycles: int
    forged: int

    @property
    def stands(self) -> tuple[FlowStatus, ...]:
        """The flows that stand still."""
        return tuple(one for one in self.flows if one.stands)


def by_topic(flows: Iterable[FlowStatus]) -> Iterator[TopicFlows]:
    """One line for each edge topic, in the order in which the topics come."""
    topics: dict[tuple[str, str], list[FlowStatus]] = defaultdict(list)
    for one in flows:
        topics[one.edge, one.topic].append(one)
    for (edge, topic), of in topics.items():
        yield TopicFlows(
            edge,
            topic,
            tuple(of),
            known([one.lag_records for one in of], sum),
            known([one.lag_ms for one in of], max),
            known([one.retention_margin_ms for one in of], min),
            sum(one.delivered for one in of),
            sum(one.dead for one in of),
            sum(one.suppressed for one in of),
            sum(one.cycles for one in of),
            sum(one.forged for one in of),
        )
