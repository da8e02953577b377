"""Selects what a command shows: one edge, some topics, problems only."""

from collections.abc import Collection
from typing import NamedTuple

from aggregator.config.patterns import full_matches


class Selection(NamedTuple):
    """A choice of edges, topics and entries.

    Attributes:
        edge: The name of one edge; empty: all edges.
        topic: Regular expression on the whole name of an edge topic; None: any.
        problems: Only what needs somebody.
    """

    edge: str = ""
    topic: str | None = None
    problems: bool = False

    def topics(self, names: Collection[str]) -> frozenset[str]:
        """Those of these topics that are chosen."""
        if self.topic is None:
            return frozenset(names)
        ordered = list(names)
        matches = full_matches(self.topic, ordered)
        return frozenset(name for name, is_match in zip(ordered, matches, strict=True) if is_match)

    def takes_edge(self, edge: str) -> bool:
        """Whether an edge is chosen."""
        return self.edge in ("", edge)

    def shows(self, problem: object) -> bool:
        """Whether an entry is shown that has this problem, or an empty one."""
        return bool(problem) or not self.problems
