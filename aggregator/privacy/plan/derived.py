"""Derives the central schema from a writer schema and a plan, by a pure function whose output is the same to the byte.

Invariants: names and order stay, and a dropped part leaves no trace. Tags, docs and unknown properties do not travel.
Only unchanged fields keep their defaults, and a changed field gets the empty default of its type. `hub.strip` says what
was done to a field, and `hub.policy` by which policy. A record that means two things at two places gets a second name,
`<name>_2`.
"""

import json
from collections.abc import Sequence
from typing import Any

from aggregator.budgets import SCHEMA_STEPS
from aggregator.errors import DeadLetterError, Reason
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.leaf import Leaf, leaf_of
from aggregator.privacy.plan.defaults import empty_default
from aggregator.privacy.plan.plan import Action, Call, PlanNode
from aggregator.schema.avro import Field, Kind, Missing, Node, Schema
from aggregator.schema.compatibility import POLICY
from aggregator.schema.plain_json import Defaults

STRIP = "hub.strip"
# The namespace of types without a namespace, where they are named from within another namespace.
HOME = "hub"
_NAMED = frozenset((Kind.RECORD, Kind.ENUM, Kind.FIXED))


def derive(
    schema: Schema, nodes: Sequence[PlanNode], root: int, calls: Sequence[Call], policy: tuple[str, int, str]
) -> str:
    """The text of the derived schema.

    Args:
        schema: The writer's schema.
        nodes: The nodes of the settled plan.
        root: The number of the node where a value begins.
        calls: The plan's operator calls.
        policy: Name, version and hash of the policy.
    """
    if nodes[root].action is Action.DROP:
        shape: Any = {"type": "null"}
    else:
        writer = _Writer(schema, nodes, calls)
        shape = writer.type(root, "")
        if writer.is_mistakable:
            shape = _Writer(schema, nodes, calls, home=f"{HOME}.").type(root, "")
    return json.dumps(_labelled(shape, f"{policy[0]}/{policy[1]}"), separators=(",", ":"))


def _labelled(shape: Any, label: str) -> Any:
    """The policy's name on the outermost type; on the first branch that can carry it where that is a union."""
    if isinstance(shape, str):
        return {"type": shape, POLICY: label}
    if isinstance(shape, dict):
        return {**shape, POLICY: label}
    place = next((index for index, branch in enumerate(shape) if branch != "null"), 0)
    return [_labelled(branch, label) if index == place else branch for index, branch in enumerate(shape)]


class _Writer:
    """Writes types in the order of the source; a named type once, then by name."""

    def __init__(self, schema: Schema, nodes: Sequence[PlanNode], calls: Sequence[Call], home: str = "") -> None:
        self.schema = schema
        self.defaults = Defaults(schema)
        self.home = home
        self.is_mistakable = False
        self.nodes = nodes
        self.calls = calls
        self.classes = _classes(schema, nodes, calls)
        self.names: dict[tuple[str, int], str] = {}
        self.taken = {node.name for node in schema.nodes if node.name}
        self.used: set[str] = set()
        self.counts: dict[str, int] = {}

    def type(self, number: int, space: str) -> Any:
        node = self.nodes[number]
        match node.kind:
            case Kind.UNION:
                return self.union(node, space)
            case Kind.ARRAY:
                return {"type": "array", "items": self.type(node.children[0], space)}
            case Kind.MAP:
                return {"type": "map", "values": self.type(node.children[1], space)}
            case Kind.RECORD:
                return self.record(number, space)
        leaf = self.leaf(number)
        shape = self.bare(number, leaf, space)
        return ["null", shape] if leaf.nullable else shape

    def leaf(self, number: int) -> Leaf:
        node = self.nodes[number]
        return self.calls[node.call].result if node.call >= 0 else _source_leaf(self.schema, node)

    def bare(self, number: int, leaf: Leaf, space: str) -> Any:
        """A leaf's type without the null that an operator added."""
        if leaf.kind in _NAMED:
            return self.named(number, leaf, space)
        return _primitive(leaf)

    def union(self, node: PlanNode, space: str) -> list[Any]:
        shapes: list[Any] = []
        sources: dict[int, list[int]] = {}
        for branch, place in enumerate(node.routes):
            sources.setdefault(place, []).append(branch)
        for place, position in enumerate(node.branches):
            if position < 0:
                shapes.append("null")
                continue
            child = node.children[position]
            if self.nodes[child].kind in (Kind.ARRAY, Kind.MAP, Kind.RECORD):
                shapes.append(self.type(child, space))
                continue
            leaf = self.leaf(child)
            sharing = [self.leaf(node.children[i]) for i in sources.get(place, ())]
            if any(other.logical != leaf.logical for other in sharing if other.kind is leaf.kind):
                leaf = leaf._replace(logical=None)  # tokens and values of one base type meet in one branch
            shapes.append(self.bare(child, leaf, space))
        return shapes

    def name(self, number: int) -> tuple[str, bool]:
        """The full name of a named type, and whether it is defined already."""
        source = self.schema.nodes[self.nodes[number].source].name
        source = source if "." in source else self.home + source
        identity = (source, self.classes[number])
        if identity in self.names:
            return self.names[identity], True
        count = self.counts.get(source, 1)
        name = source if count == 1 else f"{source}_{count}"
        while name in self.used or (count > 1 and name in self.taken):
            count += 1
            name = f"{source}_{count}"
        self.names[identity], self.counts[source] = name, count
        self.used.add(name)
        return name, False

    def reference(self, name: str, space: str) -> str:
        """A type by its name; within a namespace a name without one means another type, or none."""
        self.is_mistakable |= bool(space) and "." not in name
        return name

    def named(self, number: int, leaf: Leaf, space: str) -> Any:
        name, known = self.name(number)
        if known:
            return self.reference(name, space)
        node = self.schema.nodes[self.nodes[number].source]
        head = _head(leaf.kind, name, node, space)
        if leaf.kind is Kind.FIXED:
            return {**head, "size": leaf.size, **_logical(leaf)}
        if tuple(leaf.symbols) != tuple(node.symbols):
            head.pop("aliases", None)  # aliases of a type whose symbols were replaced
        head["symbols"] = list(leaf.symbols)
        return head if node.default not in leaf.symbols else {**head, "default": node.default}

    def record(self, number: int, space: str) -> Any:
        name, known = self.name(number)
        if known:
            return self.reference(name, space)
        plan, node = self.nodes[number], self.schema.nodes[self.nodes[number].source]
        inner = name.rpartition(".")[0]
        fields = [
            self.field(field, child, inner)
            for field, child in zip(node.fields, plan.children, strict=True)
            if self.nodes[child].action is not Action.DROP
        ]
        return {**_head(Kind.RECORD, name, node, space), "fields": fields}

    def field(self, field: Field, child: int, space: str) -> dict[str, Any]:
        shape: dict[str, Any] = {"name": field.name, "type": self.type(child, space)}
        if field.aliases:
            shape["aliases"] = list(field.aliases)
        untouched = self.nodes[child].action is Action.KEEP
        first = shape["type"][0] if isinstance(shape["type"], list) else None
        if field.default is not Missing.MISSING:
            fits = untouched and self.defaults.fit(field.node, field.default)
            is_kept = fits or (field.default is None and first == "null")
            default = field.default if is_kept else empty_default(shape["type"])
            if default is not Missing.MISSING:
                shape["default"] = default
        done = self.done(child, "")
        if done:
            operators = {path: "|".join(sorted(names)) for path, names in sorted(done.items())}
            shape[STRIP] = operators[""] if set(operators) == {""} else operators
        return shape

    def done(self, number: int, path: str) -> dict[str, set[str]]:
        """What was done to the leaves of a field that are not fields of another record."""
        node = self.nodes[number]
        if node.published and node.action is not Action.DROP:
            return {path: {node.published}}
        steps = {
            Kind.ARRAY: (paths.ITEMS,),
            Kind.MAP: (paths.KEYS, paths.VALUES),
            Kind.UNION: ("",) * len(node.children),
        }.get(node.kind, ())
        found: dict[str, set[str]] = {}
        for step, child in zip(steps, node.children if steps else (), strict=True):
            for inner, names in self.done(child, paths.join(path, step) if step else path).items():
                found.setdefault(inner, set()).update(names)
        return found


def _source_leaf(schema: Schema, node: PlanNode) -> Leaf:
    return leaf_of(schema.nodes[node.source])


def _primitive(leaf: Leaf) -> Any:
    return leaf.kind.value if leaf.logical is None else {"type": leaf.kind.value, **_logical(leaf)}


def _logical(leaf: Leaf) -> dict[str, Any]:
    if leaf.logical is None:
        return {}
    numbers = {"precision": leaf.logical.precision, "scale": leaf.logical.scale}
    return {"logicalType": leaf.logical.name, **{key: value for key, value in numbers.items() if value is not None}}


def _head(kind: Kind, name: str, node: Node, space: str) -> dict[str, Any]:
    own, _, short = name.rpartition(".")
    head: dict[str, Any] = {"type": kind.value, "name": short}
    if own != space:
        head["namespace"] = own
    if node.aliases and name == node.name:
        head["aliases"] = list(node.aliases)
    return head


def _classes(schema: Schema, nodes: Sequence[PlanNode], calls: Sequence[Call]) -> list[int]:
    """Numbers nodes so that two get one number exactly when their derived types are the same.

    Partition refinement: begin with what a node shows by itself, split by what the children are, until nothing splits.
    """

    def own(node: PlanNode) -> tuple[Any, ...]:
        if node.action is Action.DROP:
            return (Action.DROP,)
        source = schema.nodes[node.source]
        leaf = calls[node.call].result if node.call >= 0 else None
        return (node.kind, source.name, node.action, leaf, node.published, node.branches)

    classes = _numbered([own(node) for node in nodes])
    if not _is_ambiguous(schema, nodes):
        return [0] * len(nodes)
    for _ in range(SCHEMA_STEPS.limit // len(nodes)):
        finer = _numbered(
            [
                (mine, *(classes[child] for child in node.children)) if node.action is not Action.DROP else (mine,)
                for mine, node in zip(classes, nodes, strict=True)
            ]
        )
        if max(finer) == max(classes):
            return finer
        classes = finer
    raise DeadLetterError(
        Reason.SCHEMA_REFUSED,
        f"writer schema refused: telling its types apart takes more than {SCHEMA_STEPS.limit:,} steps",
        hint="use fewer types that name each other",
    )


def _is_ambiguous(schema: Schema, nodes: Sequence[PlanNode]) -> bool:
    """Whether some named type occurs at two nodes; most schemas have none."""
    names = [schema.nodes[node.source].name for node in nodes if node.kind in _NAMED and node.action is not Action.DROP]
    return len(set(names)) < len(names)


def _numbered(signatures: list[tuple[Any, ...]]) -> list[int]:
    numbers: dict[tuple[Any, ...], int] = {}
    return [numbers.setdefault(signature, len(numbers)) for signature in signatures]
