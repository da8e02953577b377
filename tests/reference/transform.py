"""Applies a plan to decoded values: collects what operators need, then builds what is left.

Invariant: what is built holds kept parts and operators' results only; a value whose operator failed has no result, and
building its record fails.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.plan.plan import Action, StripPlan
from aggregator.privacy.plan.side_inputs import entity, shown
from aggregator.schema.avro import CONTAINERS, Kind
from tests.reference.codec import KEY, VALUE, branch_name, field_name

# Path to what is there, for those that are looked at and not null.
Beside = Mapping[str, Shown]
# Per operator call: raw value, or a pair of it and what it sees beside it, to raw result.
Results = Mapping[int, Mapping[Raw, Raw]]
Counts = Counter[tuple[str, str]]


class OperatorFailed(Exception):
    """There is no result for a value of this record; it never leaves this room."""


class _Around(NamedTuple):
    """What the parts of one record are built with."""

    beside: Beside
    results: Results
    counts: Counts


class Transform:
    """One plan, applied to values in the shape of `codec`."""

    def __init__(self, plan: StripPlan) -> None:
        self._nodes = plan.nodes
        self._root = plan.root
        self._operators = [call.rule.operator for call in plan.calls]
        self._fields = [
            [(field_name(place), child) for place, child in enumerate(node.children)] for node in plan.nodes
        ]
        self._side_inputs = plan.side_inputs
        self._beside = [call.other_field for call in plan.calls]
        self._reads = [operators.reads_value(call.rule) for call in plan.calls]
        applied = {number for number, node in enumerate(plan.nodes) if node.action is Action.APPLY}
        self._asking = _leading(plan, applied, {Action.WALK})  # what is dropped may hold a type that is live elsewhere
        seen = {number for number, node in enumerate(plan.nodes) if node.side_input >= 0}
        self._showing = _leading(plan, seen, set(Action))

    def shown(self, value: Raw) -> Beside:
        """What is at the paths that others look at."""
        found: dict[str, Shown] = {}
        waiting = [(self._root, value)] if self._root in self._showing else []
        while waiting:
            number, part = waiting.pop()
            place = self._nodes[number].side_input
            if place >= 0:
                found[self._side_inputs[place].path] = shown(self._side_inputs[place].leaf, part)
            else:
                waiting += [pair for pair in self._parts(number, part) if pair[0] in self._showing]
        return found

    def met(self, value: Raw, visits: Counter[int]) -> None:
        """Count every part of a value at its node."""
        waiting = [(self._root, value)]
        while waiting:
            number, part = waiting.pop()
            visits[number] += 1
            if self._nodes[number].kind in CONTAINERS:
                waiting += self._parts(number, part)

    def asked(self, value: Raw) -> int:
        """How many of its parts operators or conditions see."""
        found, waiting = 0, [(self._root, value)]
        while waiting:
            number, part = waiting.pop()
            node = self._nodes[number]
            found += (node.call >= 0 and self._reads[node.call]) + (node.side_input >= 0)
            if node.kind in CONTAINERS:
                waiting += self._parts(number, part)
        return found

    def failed(self, value: Raw, beside: Beside, results: Results) -> set[int]:
        """Leaves whose operator has no result for a value of this record."""
        found, waiting = set(), [(self._root, value)] if self._root in self._asking else []
        while waiting:
            number, part = waiting.pop()
            call = self._nodes[number].call
            if self._nodes[number].action is not Action.APPLY:
                waiting += [pair for pair in self._parts(number, part) if pair[0] in self._asking]
            elif self._asked(call, part, beside) not in results[call]:
                found.add(number)
        return found

    def collect(self, value: Raw, beside: Beside, wanted: Mapping[int, set[Raw]]) -> None:
        """Add every value that an operator will be asked for to the set of its call."""
        if self._root in self._asking:
            self._collect(self._root, value, beside, wanted)

    def build(self, value: Raw, beside: Beside, results: Results, counts: Counts) -> Raw:
        """What is left of a value.

        Args:
            value: As decoded.
            beside: From `shown`.
            results: What the operators made of the collected values.
            counts: Grows by what was removed and changed; paths and operators.

        Raises:
            OperatorFailed: a result is missing.
        """
        if self._nodes[self._root].action is Action.DROP:
            self._count_dropped(self._root, value, counts)
            return None
        return self._build(self._root, value, _Around(beside, results, counts))

    def _collect(self, number: int, value: Raw, beside: Beside, wanted: Mapping[int, set[Raw]]) -> None:
        node = self._nodes[number]
        if node.action is Action.APPLY:
            wanted[node.call].add(self._asked(node.call, value, beside))
            return
        for child, part in self._parts(number, value):
            if child in self._asking:
                self._collect(child, part, beside, wanted)

    def _asked(self, call: int, value: Raw, beside: Beside) -> Raw:
        """What an operator is asked for."""
        return (value, entity(beside.get(self._beside[call]))) if self._beside[call] else value

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

    def _build(self, number: int, value: Raw, around: _Around) -> Raw:
        node = self._nodes[number]
        if node.action is Action.KEEP:
            return value
        if node.action is Action.APPLY:
            asked = self._asked(node.call, value, around.beside)
            if asked not in around.results[node.call]:
                raise OperatorFailed
            around.counts[node.path or ".", self._operators[node.call]] += 1
            return around.results[node.call][asked]
        match node.kind:
            case Kind.RECORD:
                return self._record(number, value, around)
            case Kind.UNION:
                return self._union(number, value, around)
            case Kind.ARRAY:
                return [self._build(node.children[0], item, around) for item in value]
        key, inner = node.children
        return [
            {KEY: self._build(key, pair[KEY], around), VALUE: self._build(inner, pair[VALUE], around)} for pair in value
        ]

    def _record(self, number: int, value: Raw, around: _Around) -> dict[str, Any]:
        left = {}
        for name, child in self._fields[number]:
            if self._nodes[child].action is Action.DROP:
                self._count_dropped(child, value[name], around.counts)
            else:
                left[name] = self._build(child, value[name], around)
        return left

    def _union(self, number: int, value: Raw, around: _Around) -> tuple[str, dict[str, Any]]:
        node = self._nodes[number]
        branch = _branch(value)
        place, child = node.routes[branch], node.children[branch]
        position = node.branches[place]
        becomes_null = position < 0 or (self._nodes[node.children[position]].kind is Kind.NULL and position != branch)
        inner = value[1][VALUE]
        if self._nodes[child].action is Action.DROP:
            self._count_dropped(child, inner, around.counts)
        else:
            inner = self._build(child, inner, around)
        return branch_name(number, place), {VALUE: None if becomes_null else inner}

    def _count_dropped(self, number: int, value: Raw, counts: Counts) -> None:
        """One for the outermost thing that leaves; a null is nothing."""
        node = self._nodes[number]
        child = node.children[_branch(value)] if node.kind is Kind.UNION else number
        if self._nodes[child].kind is not Kind.NULL:
            counts[node.path or ".", "drop"] += 1


def _leading(plan: StripPlan, found: set[int], through: set[Action]) -> set[int]:
    """These nodes, and all that hold one of them somewhere, through nodes with these actions."""
    while True:
        above = {
            number
            for number, node in enumerate(plan.nodes)
            if node.action in through and not found.isdisjoint(node.children)
        }
        if above <= found:
            return found
        found |= above


def _branch(value: Raw) -> int:
    """The branch of a union's value, from the name of the record that stands for it."""
    return int(value[0].rpartition("_")[2])
