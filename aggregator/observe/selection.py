"""Selects parts of a hub's status (one edge, some topics, problems only), and sums its flows to one line for each
topic.

Invariant: pure. Entries that are not selected are left out of lists. The sums of an edge remain those of the whole
edge.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from aggregator.config.patterns import full_matches
from aggregator.coordinates import EdgePartition
from aggregator.edges.availability import AvailabilityState
from aggregator.observe.hub_status import FlowStatus, HubStatus, known


class StatusSelection(NamedTuple):
    """Selects a part of a status.

    Attributes:
        edge: The name of one edge; empty: all edges.
        topic: Regular expression on the whole name of an edge topic; None: any.
        problems: Only what needs somebody, or stands still.
    """

    edge: str = ""
    topic: str | None = None
    problems: bool = False

    def of(self, seen: HubStatus, feeds: Callable[[Iterable[EdgePartition]], Collection[str]]) -> HubStatus:
        """The selected part of a status.

        Args:
            seen: The whole status.
            feeds: Names of the tables that flows feed.
        """
        topics = {one.topic for one in seen.flows} | {one.source.topic for one in seen.gaps}
        topics |= {EdgePartition.parse(flow).topic for flow in seen.refused}
        chosen = self._topics(sorted(topics))
        clusters = [one for one in seen.clusters if self._is_of(one.name) and (one.why or not self.problems)]
        tables = [one for one in seen.lake if self._needs(bool(one.hold_reason))]
        if self.edge or self.topic is not None:
            fed = feeds([one.source for one in seen.flows if self._takes(one.edge, one.topic, chosen)])
            tables = [one for one in tables if one.table in fed]
        return replace(
            seen,
            edges=tuple(
                one for one in seen.edges if self._is_of(one.edge) and self._needs(one.state != AvailabilityState.UP)
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
            groups=tuple(one for one in seen.groups if self._is_of(one.edge) and not self.problems),
            without_rule={
                edge: names for edge, names in self._unruled(seen) if self._is_of(edge) and names and not self.problems
            },
        )

    def _unruled(self, seen: HubStatus) -> Iterator[tuple[str, tuple[str, ...]]]:
        for edge, names in seen.without_rule.items():
            chosen = self._topics(list(names))
            yield edge, tuple(name for name in names if name in chosen)

    def _topics(self, names: list[str]) -> frozenset[str]:
        if self.topic is None:
            return frozenset(names)
        return frozenset(name for name, match in zip(names, full_matches(self.topic, names), strict=True) if match)

    def _flows(self, flows: Iterable[FlowStatus], topics: frozenset[str]) -> Iterator[FlowStatus]:
        for one in flows:
            if self._takes(one.edge, one.topic, topics) and self._needs(one.stands):
                yield one

    def _takes(self, edge: str, topic: str, topics: frozenset[str]) -> bool:
        return self._is_of(edge) and topic in topics

    def _is_of(self, edge: str) -> bool:
        return self.edge in ("", edge)

    def _needs(self, problem: bool) -> bool:
        return problem or not self.problems


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
