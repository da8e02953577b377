"""Applies a plan to decoded values: collects what operators need, then builds what is left.

Invariant: what is built holds kept parts and operators' results only; a value whose operator failed has no result, and
building its record fails.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from aggregator.privacy.codec import KEY, VALUE, Raw, branch_name, field_name
from aggregator.privacy.plan import Action, Plan
from aggregator.schema.avro import Kind

# Per operator call: raw value to raw result.
Results = Mapping[int, Mapping[Raw, Raw]]
Counts = Counter[tuple[str, str]]


class OperatorFailed(Exception):
    """There is no result for a value of this record; it never leaves this room."""


class Transform:
    """One plan, applied to values in the shape of `codec`."""

    def __init__(self, plan: Plan) -> None:
        self._nodes = plan.nodes
        self._root = plan.root
        self._operators = [call.rule.operator for call in plan.calls]
        self._fields = [
            [(field_name(place), child) for place, child in enumerate(node.children)] for node in plan.nodes
        ]
        self._asking = _asking(plan)

    def collect(self, value: Raw, wanted: Mapping[int, set[Raw]]) -> None:
        """Add every value that an operator will be asked for to the set of its call."""
        if self._root in self._asking:
            self._collect(self._root, value, wanted)

    def build(self, value: Raw, results: Results, counts: Counts) -> Raw:
        """What is left of a value.

        Args:
            value: As decoded.
            results: What the operators made of the collected values.
            counts: Grows by what was removed and changed; paths and operators.

        Raises:
            OperatorFailed: a result is missing.
        """
        if self._nodes[self._root].action is Action.DROP:
            self._count_dropped(self._root, value, counts)
            return None
        return self._build(self._root, value, results, counts)

    def _collect(self, number: int, value: Raw, wanted: Mapping[int, set[Raw]]) -> None:
        node = self._nodes[number]
        if node.action is Action.APPLY:
            wanted[node.call].add(value)
            return
        for child, part in self._parts(number, value):
            if child in self._asking:
                self._collect(child, part, wanted)

    def _parts(self, number: int, value: Raw) -> list[tuple[int, Raw]]:
        """A container's parts, each with its node."""
        node = self._nodes[number]
        match node.kind:
            case Kind.RECORD:
                return [(child, value[name]) for name, child in self._fields[number]]
            case Kind.UNION:
                branch = _branch(value)
                return [(node.children[branch], value[1][VALUE])]
            case Kind.ARRAY:
                return [(node.children[0], item) for item in value]
        key, inner = node.children
        return [part for pair in value for part in ((key, pair[KEY]), (inner, pair[VALUE]))]

    def _build(self, number: int, value: Raw, results: Results, counts: Counts) -> Raw:
        node = self._nodes[number]
        if node.action is Action.KEEP:
            return value
        if node.action is Action.APPLY:
            if value not in results[node.call]:
                raise OperatorFailed
            counts[node.path or ".", self._operators[node.call]] += 1
            return results[node.call][value]
        match node.kind:
            case Kind.RECORD:
                return self._record(number, value, results, counts)
            case Kind.UNION:
                return self._union(number, value, results, counts)
            case Kind.ARRAY:
                return [self._build(node.children[0], item, results, counts) for item in value]
        key, inner = node.children
        return [
            {KEY: self._build(key, pair[KEY], results, counts), VALUE: self._build(inner, pair[VALUE], results, counts)}
            for pair in value
        ]

    def _record(self, number: int, value: Raw, results: Results, counts: Counts) -> dict[str, Any]:
        left = {}
        for name, child in self._fields[number]:
            if self._nodes[child].action is Action.DROP:
                self._count_dropped(child, value[name], counts)
            else:
                left[name] = self._build(child, value[name], results, counts)
        return left

    def _union(self, number: int, value: Raw, results: Results, counts: Counts) -> tuple[str, dict[str, Any]]:
        node = self._nodes[number]
        branch = _branch(value)
        place, child = node.routes[branch], node.children[branch]
        position = node.branches[place]
        becomes_null = position < 0 or (self._nodes[node.children[position]].kind is Kind.NULL and position != branch)
        inner = value[1][VALUE]
        if self._nodes[child].action is Action.DROP:
            self._count_dropped(child, inner, counts)
        else:
            inner = self._build(child, inner, results, counts)
        return branch_name(number, place), {VALUE: None if becomes_null else inner}

    def _count_dropped(self, number: int, value: Raw, counts: Counts) -> None:
        """One for the outermost thing that leaves; a null is nothing."""
        node = self._nodes[number]
        child = node.children[_branch(value)] if node.kind is Kind.UNION else number
        if self._nodes[child].kind is not Kind.NULL:
            counts[node.path or ".", "drop"] += 1


def _asking(plan: Plan) -> set[int]:
    """Nodes with an operator somewhere in them."""
    found = {number for number, node in enumerate(plan.nodes) if node.action is Action.APPLY}
    while True:
        above = {
            number
            for number, node in enumerate(plan.nodes)
            if node.action is Action.WALK and not found.isdisjoint(node.children)
        }
        if above <= found:
            return found
        found |= above


def _branch(value: Raw) -> int:
    """The branch of a union's value, from the name of the record that stands for it."""
    return int(value[0].rpartition("_")[2])
