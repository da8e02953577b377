"""Finds central topics that two different sources could fill, before any record flows.

Invariant: the answer is exact where one of two patterns is a list of names. Where both patterns are open, the check
refuses in case of doubt, because two topics that are mixed into one cannot be separated afterwards.
"""

import itertools
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from aggregator.config.match import matches_topic
from aggregator.config.model import TopicRule
from aggregator.config.patterns import PatternBranch, branches
from aggregator.coordinates import HEARTBEATS

# Names under `<hub>.` that the Kafka package uses itself; a test keeps the two lists equal.
RESERVED = ("ledger", "control", "requests", "decisions", "dead-letters", "edge-status", "telemetry")
# Endings of internal names, which MirrorMaker 2 does not copy either.
_INTERNAL = (".internal", "-internal")


class CentralPattern(NamedTuple):
    """Central names of one rule at one edge: `before` + edge topic + `after`."""

    before: str
    after: str
    rule: int
    edge: str

    def name(self, topic: str) -> str:
        """The central name of an edge topic."""
        return f"{self.before}{topic}{self.after}"

    def topic(self, name: str) -> str | None:
        """The edge topic that would have this central name."""
        room = len(name) - len(self.before) - len(self.after)
        if room <= 0 or not name.startswith(self.before) or not name.endswith(self.after):
            return None
        return name[len(self.before) : len(self.before) + room]


class Collision(NamedTuple):
    """Two targets that meet; `name` is a central topic that shows it, None when both patterns are open."""

    first: CentralPattern
    second: CentralPattern
    name: str | None


def targets(rules: Sequence[tuple[int, TopicRule]], edges: Sequence[str]) -> list[CentralPattern]:
    """Every rule at every edge that it speaks of."""
    found = []
    for index, rule in rules:
        for edge in edges if rule.edges is None else rule.edges:
            before, _, after = rule.central.replace("{edge}", edge).partition("{topic}")
            found.append(CentralPattern(before, after, index, edge))
    return found


def collisions(rules: dict[int, TopicRule], every: Sequence[CentralPattern]) -> Iterator[Collision]:
    """Pairs of targets that different edge topics could fill, one pair per pair of rules."""
    reported: set[tuple[int, int]] = set()
    for first, second in _neighbours(every):
        pair = (min(first.rule, second.rule), max(first.rule, second.rule))
        if pair not in reported:
            met, name = _meet(rules[first.rule], first, rules[second.rule], second)
            if met:
                reported.add(pair)
                yield Collision(first, second, name)


def _neighbours(every: Sequence[CentralPattern]) -> Iterator[tuple[CentralPattern, CentralPattern]]:
    """Pairs of targets whose names could be one for different topics; targets of one form never meet."""
    forms = defaultdict(list)
    for target in sorted(set(every)):
        forms[target.before, target.after].append(target)
    ordered = list(forms)
    for index, (before, after) in enumerate(ordered):
        for longer, other in ordered[index + 1 :]:
            if not longer.startswith(before):
                break  # sorted by `before`: nothing later begins with it either
            if _ends_meet(after, other):
                yield from itertools.product(forms[before, after], forms[longer, other])


def reserved_names(hub: str, edges: Sequence[str]) -> list[str]:
    """Central topics that belong to the hub itself, the edges' heartbeats, and those that tell positions of groups.

    They are sorted.
    """
    own = [f"{hub}.{name}" for name in RESERVED]
    told = [name for edge in edges for name in (f"{edge}.checkpoints.internal", f"mm2-offset-syncs.{edge}.internal")]
    late = [f"{hub}.backfill.{name}" for name in RESERVED]
    return sorted([*own, *late, *(f"{edge}.{HEARTBEATS}" for edge in edges), *told])


def reserved_hits(
    rules: Mapping[int, TopicRule], every: Sequence[CentralPattern], names: Sequence[str]
) -> dict[int, str]:
    """The first name of the hub's own that each rule would write into, if it would write into one.

    An edge's `heartbeats` under its default name is no hit: it is the heartbeat flow itself. Nor is a topic of an edge
    that is internal there: no rule replicates such a one.

    Args:
        rules: Rules by their place.
        every: Where they write.
        names: What `reserved_names` has found, sorted: only those that begin as a target does are looked at.
    """
    hits: dict[int, str] = {}
    # Edges at which a rule writes the same names are one case, but for an edge whose own heartbeats are among them.
    cases = {(*one[:3], _own_heartbeats(one)): one for one in every}
    for target in cases.values():
        if target.rule not in hits and (hit := _reserved_hit(rules[target.rule], target, names)):
            hits[target.rule] = hit
    return hits


def _own_heartbeats(target: CentralPattern) -> bool:
    return target.name(HEARTBEATS) == f"{target.edge}.{HEARTBEATS}"


def _reserved_hit(rule: TopicRule, target: CentralPattern, names: Sequence[str]) -> str | None:
    for at in range(bisect_left(names, target.before), len(names)):
        name = names[at]
        if not name.startswith(target.before):
            break
        topic = target.topic(name)
        if topic is None or (topic == HEARTBEATS and name == f"{target.edge}.{HEARTBEATS}"):
            continue
        if matches_topic(rule, topic) and not topic.endswith(_INTERNAL):
            return name
    return None


def _ends_meet(one: str, other: str) -> bool:
    return one.endswith(other) or other.endswith(one)


def _meet(one: TopicRule, first: CentralPattern, other: TopicRule, second: CentralPattern) -> tuple[bool, str | None]:
    for left in branches(one.match):
        for right in branches(other.match):
            if left.is_literal or right.is_literal:
                name = _shared(one, left, first, other, second) or _shared(other, right, second, one, first)
                if name:
                    return True, name
            elif _begins_meet(first.before + left.literal, second.before + right.literal):
                return True, None
    return False, None


def _shared(
    rule: TopicRule, branch: PatternBranch, own: CentralPattern, other: TopicRule, target: CentralPattern
) -> str | None:
    """The central name of a literal branch, if a different topic of the other rule has it too."""
    if not branch.is_literal or not branch.literal or not matches_topic(rule, branch.literal):
        return None
    name = own.name(branch.literal)
    topic = target.topic(name)
    if topic is None or topic == branch.literal or not matches_topic(other, topic):
        return None
    return name


def _begins_meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)
