"""Selects parts of a plan (one edge, some topics, problems only), and merges equal fields of several edges into one
table.

Invariant: pure. Entries that are not selected are left out of lists and counts. The hub's own topics belong to no edge.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from aggregator.config.selection import Selection
from aggregator.coordinates import HEARTBEATS
from aggregator.plan.actions import BAD
from aggregator.plan.run_plan import HubPlan
from aggregator.plan.schemas import FieldRoute
from aggregator.replicate.discovery.topic_settings import DriftAction


class PlanSelection(Selection):
    """Selects a part of a plan; a problem is what a run would hold or refuse, what is unknown, or waits for a word."""

    def of(self, plan: HubPlan) -> HubPlan:
        """The selected part of a plan."""
        names = self.topics(sorted({HEARTBEATS, *(one.topic for one in plan.flows)}))
        known = {(one.edge, one.topic) for one in plan.flows} | {(one.edge, one.topic) for one in plan.schemas}
        chosen = {(edge, topic) for edge, topic in known if self.takes_edge(edge) and topic in names}
        fed = {one.central for one in plan.flows if (one.edge, one.topic) in chosen}
        narrow = bool(self.edge) or self.topic is not None
        topics = [one for one in plan.topics if not narrow or one.topic in fed or self._is_beats(one.cluster, names)]
        tables = [one for one in plan.tables if not narrow or not fed.isdisjoint(one.topics)]
        flows = [one for one in plan.flows if (one.edge, one.topic) in chosen]
        schemas = [one for one in plan.schemas if (one.edge, one.topic) in chosen]
        drifts = [one for one in plan.drifts if not narrow or one.topic in fed]
        return replace(
            plan,
            unreachable={edge: why for edge, why in plan.unreachable.items() if self.takes_edge(edge)},
            topics=() if self.problems else tuple(topics),
            flows=tuple(
                one for one in flows if self.shows(one.held or one.dead or one.some_dead or one.waiting_records is None)
            ),
            schemas=tuple(one for one in schemas if self.shows(one.action in BAD)),
            tables=tuple(one for one in tables if self.shows(one.action in BAD)),
            fields=() if self.problems else tuple(one for one in plan.fields if (one.edge, one.topic) in chosen),
            drifts=tuple(one for one in drifts if self.shows(one.action != DriftAction.CHANGE)),
            clusters=tuple(one for one in plan.clusters if self.takes_edge(one.name) and self.shows(one.why)),
            paused={edge: why for edge, why in plan.paused.items() if self.takes_edge(edge)},
            takeovers=tuple(one for one in plan.takeovers if (one.edge, one.topic) in chosen and self.shows(one.note)),
        )

    def _is_beats(self, cluster: str, names: frozenset[str]) -> bool:
        """The heartbeats that are made at a chosen edge."""
        return cluster != "central" and self.takes_edge(cluster) and HEARTBEATS in names


class FieldTable(NamedTuple):
    """Fields of one topic that are treated alike at these edges.

    Attributes:
        topic: As the edges call it.
        edges: Edges that treat the fields so.
        centrals: Central topics that the records go to.
        fields: In the order of the schema, of the first edge.
    """

    topic: str
    edges: tuple[str, ...]
    centrals: tuple[str, ...]
    fields: tuple[FieldRoute, ...]


def folded(fields: Iterable[FieldRoute]) -> Iterator[FieldTable]:
    """One table per topic, and a further one if some edges treat the topic differently."""
    of: dict[tuple[str, str], list[FieldRoute]] = defaultdict(list)
    for one in fields:
        of[one.edge, one.topic].append(one)
    alike: dict[object, list[tuple[str, str]]] = defaultdict(list)
    for (edge, topic), rows in of.items():
        told = tuple((r.path, r.type, r.tags, r.operator, r.privacy_class, r.because) for r in rows)
        alike[topic, told].append((edge, topic))
    for places in alike.values():
        rows = of[places[0]]
        centrals = tuple(dict.fromkeys(of[place][0].central for place in places))
        yield FieldTable(places[0][1], tuple(edge for edge, _ in places), centrals, tuple(rows))
