"""fastavro schemas with the same bytes as the writer's, but in which nothing is guessed and nothing gets lost.

fastavro guesses union branches when it writes, collapses equal map keys, and turns logical types and floating point
into Python values that do not always come back as the same bytes. So every union branch becomes a record of its own
(which has the branch's bytes), a map an array of pairs, text bytes, an enum its number, a float four fixed bytes.

Invariant: decode, then encode with the same schema, gives the canonical form of the same bytes: one block per array.
"""

import io
from collections.abc import Sequence
from typing import Any

import fastavro

from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.plan.plan import Action, Call, PlanNode, StripPlan
from aggregator.schema.avro import Kind

KEY, VALUE = "k", "v"
_PLAIN = {Kind.NULL: "null", Kind.BOOLEAN: "boolean", Kind.INT: "long", Kind.LONG: "long", Kind.ENUM: "long"}
_SIZES = {Kind.FLOAT: 4, Kind.DOUBLE: 8}


def field_name(position: int) -> str:
    """Name of a record's field in these schemas."""
    return f"f{position}"


def branch_name(union: int, branch: int) -> str:
    """Name of the record that stands for a union's branch."""
    return f"u{union}_{branch}"


class Codec:
    """Decodes values of a plan's writer schema, encodes values of its derived schema."""

    def __init__(self, plan: StripPlan) -> None:
        self._source = fastavro.parse_schema(_Shape(plan.nodes, plan.calls, is_output=False).type(plan.root))
        output: Any = "null" if plan.dropped else _Shape(plan.nodes, plan.calls, is_output=True).type(plan.root)
        self._output = fastavro.parse_schema(output)

    def decode(self, body: bytes) -> Raw:
        """Read a value that the guard has passed."""
        return fastavro.schemaless_reader(io.BytesIO(body), self._source, None, return_record_name=True)

    def encode(self, value: Raw) -> bytes:
        """Write a value of the derived schema."""
        out = io.BytesIO()
        fastavro.schemaless_writer(out, self._output, value)
        return out.getvalue()


class _Shape:
    """Builds one of the two schemas; records are defined where they are met first."""

    def __init__(self, nodes: Sequence[PlanNode], calls: Sequence[Call], *, is_output: bool) -> None:
        self.nodes = nodes
        self.calls = calls
        self.is_output = is_output
        self.defined: set[int] = set()

    def type(self, number: int) -> Any:
        node = self.nodes[number]
        match node.kind:
            case Kind.RECORD:
                return self.record(number, node)
            case Kind.UNION:
                return self.union(number, node)
            case Kind.ARRAY:
                return {"type": "array", "items": self.type(node.children[0])}
            case Kind.MAP:
                key, value = (self.type(child) for child in node.children)
                return {"type": "array", "items": _record(f"p{number}", {KEY: key, VALUE: value})}
        return self.leaf(number, node)

    def leaf(self, number: int, node: PlanNode) -> Any:
        if self.is_output and node.call >= 0:
            result = self.calls[node.call].result
            return _fixed(number, 1) if result.nullable else _leaf(number, result.kind, result.size)
        return _leaf(number, node.kind, node.size)

    def record(self, number: int, node: PlanNode) -> Any:
        if number in self.defined:
            return f"r{number}"
        self.defined.add(number)
        fields = {
            field_name(position): self.type(child)
            for position, child in enumerate(node.children)
            if not (self.is_output and self.nodes[child].action is Action.DROP)
        }
        return _record(f"r{number}", fields)

    def union(self, number: int, node: PlanNode) -> Any:
        if not self.is_output:
            types = [self.type(child) for child in node.children]
        else:
            types = [
                "null" if position < 0 or self.is_null(node.children[position]) else self.type(node.children[position])
                for position in node.branches
            ]
        return [_record(branch_name(number, branch), {VALUE: shape}) for branch, shape in enumerate(types)]

    def is_null(self, number: int) -> bool:
        """A nullified branch keeps its place and is never written."""
        call = self.nodes[number].call
        return call >= 0 and self.calls[call].result.nullable


def _leaf(number: int, kind: Kind, size: int) -> Any:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in (Kind.STRING, Kind.BYTES):
        return "bytes"
    return _fixed(number, _SIZES.get(kind, size))


def _fixed(number: int, size: int) -> Any:
    return {"type": "fixed", "name": f"x{number}", "size": size}


def _record(name: str, fields: dict[str, Any]) -> Any:
    return {"type": "record", "name": name, "fields": [{"name": key, "type": shape} for key, shape in fields.items()]}
