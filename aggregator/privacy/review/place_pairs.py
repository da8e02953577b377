"""Pairs the places of two plans of one schema: what held there, and what holds now.

Invariant: every place that a plan explains has a pair: leaves, nulls that stand alone, and containers without leaves,
whose shape is a value too. A null beside other branches says nothing that these do not.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.containers import reaching_no_leaf
from aggregator.privacy.plan.plan import Action, PlanNode, StripPlan
from aggregator.privacy.policy.rules import AnyRule
from aggregator.schema.avro import Kind

# A path, and the number of the node in the writer's schema.
Place = tuple[str, int]


class RulePair(NamedTuple):
    """The rules at one place.

    Attributes:
        before: The rule that held.
        after: The rule that holds.
        leaf: The type that both see; None where one of them sees no value.
        is_blurred: One type of the output holds this branch of a union and another one, before or after: what tells
            them apart is seen at neither.
    """

    before: AnyRule
    after: AnyRule
    leaf: Leaf | None
    is_blurred: bool = False


def place_pairs(old: StripPlan, new: StripPlan) -> Mapping[Place, AbstractSet[RulePair]]:
    """The pairs of rules at each place.

    Both graphs have the schema's shape, and each tells apart more turns of a recursive type than the other where its
    policy does; so they are walked together, and a place is named by the longer of its two paths.
    """
    found: dict[Place, set[RulePair]] = defaultdict(set)
    leafless = reaching_no_leaf(old.nodes)
    root = (old.root, new.root)
    waiting, met = [root], {root}
    blurred: set[tuple[int, int]] = set()
    while waiting:
        numbers = waiting.pop()
        before, after = old.nodes[numbers[0]], new.nodes[numbers[1]]
        children = list(zip(before.children, after.children, strict=True))
        if before.kind is Kind.UNION:
            blurred.update(children[place] for place in _blurred(old, before, new, after))
            children = [pair for pair in children if old.nodes[pair[0]].kind is not Kind.NULL]
        below = [pair for pair in children if pair not in met]
        met.update(below)
        waiting += below[::-1]
        is_shape = numbers[0] in leafless and (numbers != root or before.kind is not Kind.RECORD)
        if is_shape or not before.children:  # a container without leaves is kept, or dropped, like a leaf
            path = max(before.path, after.path, key=lambda text: (len(text), text)) or "."
            leaf = old.calls[before.call].leaf if min(before.call, after.call) >= 0 else None
            pair = RulePair(_rule_of(old, before), _rule_of(new, after), leaf, numbers in blurred)
            found[path, before.source].add(pair)
    return found


def _rule_of(plan: StripPlan, node: PlanNode) -> AnyRule:
    if node.action is Action.DROP:
        return Drop()
    return plan.calls[node.call].rule if node.call >= 0 else Keep()


def _blurred(old: StripPlan, before: PlanNode, new: StripPlan, after: PlanNode) -> set[int]:
    """Branches that share their type in the output on one side, and do not all leave nothing on the other."""
    shared = [group for group in _shared(old, before) if not group <= _empty(new, after)]
    shared += [group for group in _shared(new, after) if not group <= _empty(old, before)]
    return set().union(*shared)


def _shared(plan: StripPlan, union: PlanNode) -> list[set[int]]:
    groups: dict[int, set[int]] = defaultdict(set)
    for place in set(range(len(union.routes))) - _empty(plan, union):
        groups[union.routes[place]].add(place)
    return [group for group in groups.values() if len(group) > 1]


def _empty(plan: StripPlan, union: PlanNode) -> set[int]:
    """Branches whose values become null, or leave with the whole union."""
    if union.action is Action.DROP:
        return set(range(len(union.children)))
    sources = [union.branches[route] for route in union.routes]
    return {
        place
        for place, source in enumerate(sources)
        if source < 0 or plan.nodes[union.children[source]].kind is Kind.NULL
    }
