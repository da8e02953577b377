"""Cuts a schema down to what lies below some paths, so that a change of one field is judged without all others.

Invariant: what lies below the paths is treated in a slice as in the whole. So nothing is cut below a map, whose keys
and values leave together, nor in a type that lies in itself or below such a type, whose turns are told apart.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aggregator.privacy.fields import paths
from aggregator.privacy.policy.precedence import Scope
from aggregator.schema.avro import CONTAINERS, Kind, Node, Schema

Steps = tuple[str, ...]


def literal_part(steps: Steps) -> Steps:
    """The steps in front of the first wildcard."""
    wild = [place for place, step in enumerate(steps) if step in (paths.ANY, paths.ANY_DEPTH)]
    return steps[: wild[0]] if wild else steps


class SchemaSlice(NamedTuple):
    """A part of a schema.

    Attributes:
        schema: The schema with the fields alone that some paths lead to.
        sources: New numbers of nodes to those of the whole.
        parts: Paths below which nothing was cut; some may be shorter than those that were asked for.
    """

    schema: Schema
    sources: Mapping[int, int]
    parts: AbstractSet[Steps]


class SchemaSlices:
    """Makes slices of one schema."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._is_tree = _above_cycles(schema)

    def slice_of(self, parts: Iterable[Steps]) -> SchemaSlice:
        """The slice that holds whatever lies below these paths."""
        cut = _Cut(self._schema, self._is_tree, list(self._schema.nodes))
        root = cut.visit(self._schema.root, list(parts), ())
        return SchemaSlice(Schema(tuple(cut.nodes), root), cut.sources, cut.parts)


@dataclass(slots=True)
class _Cut:
    schema: Schema
    is_tree: AbstractSet[int]
    nodes: list[Node]
    sources: dict[int, int] = field(default_factory=dict)
    parts: set[Steps] = field(default_factory=set)

    def visit(self, number: int, parts: Sequence[Steps], way: Steps) -> int:
        node = self.schema.nodes[number]
        if node.kind not in CONTAINERS:
            self.parts.add(way)
            return number
        below = _by_first_step(parts)
        fields = [item for item in node.fields if item.name in below]
        is_cut = number in self.is_tree and () not in parts
        if is_cut and fields:
            cut = [item._replace(node=self.visit(item.node, below[item.name], (*way, item.name))) for item in fields]
            made = replace(node, fields=tuple(cut))
        elif is_cut and node.kind is Kind.UNION:
            made = replace(node, children=tuple(self.visit(child, parts, way) for child in node.children))
        elif is_cut and node.kind is Kind.ARRAY and paths.ITEMS in below:
            made = replace(node, children=(self.visit(node.children[0], below[paths.ITEMS], (*way, paths.ITEMS)),))
        else:
            self.parts.add(way)
            return number
        self.nodes.append(made)
        self.sources[len(self.nodes) - 1] = number
        return len(self.nodes) - 1


class ScopeSlices:
    """Finds the rules of a scope that matter below some paths."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._at: dict[Steps, list[int]] = defaultdict(list)
        self._below: dict[Steps, list[int]] = defaultdict(list)
        for number, rule in enumerate(scope.rules):
            part = literal_part(rule.steps)
            self._at[part].append(number)
            for length in range(len(part) + 1):
                self._below[part[:length]].append(number)

    def slice_of(self, parts: Iterable[Steps]) -> Scope:
        """The scope with the rules alone that reach something below one of these paths."""
        found = {
            number
            for part in parts
            for rules in (self._below.get(part, ()), *(self._at.get(part[:length], ()) for length in range(len(part))))
            for number in rules
        }
        return self._scope._replace(rules=tuple(self._scope.rules[number] for number in sorted(found)))


def _by_first_step(parts: Iterable[Steps]) -> dict[str, list[Steps]]:
    below: dict[str, list[Steps]] = defaultdict(list)
    for part in parts:
        if part:
            below[part[0]].append(part[1:])
    return below


def _above_cycles(schema: Schema) -> set[int]:
    """The nodes that lie neither on a cycle nor below one, from the root on."""
    onwards = [(*node.children, *(item.node for item in node.fields)) for node in schema.nodes]
    arriving = [0] * len(onwards)
    for children in onwards:
        for child in children:
            arriving[child] += 1
    found: set[int] = set()
    waiting = [number for number, count in enumerate(arriving) if not count]
    while waiting:
        number = waiting.pop()
        found.add(number)
        for child in onwards[number]:
            arriving[child] -= 1
            if not arriving[child]:
                waiting.append(child)
    return found
