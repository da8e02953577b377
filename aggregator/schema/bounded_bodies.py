"""Checks an Avro body before fastavro decodes it, because fastavro's decoder has no bounds.

A hostile body could end the process or take all memory.
Invariant: the nesting of an accepted body stays within the strip's budget. Such a body makes at most as many values as
it has bytes, plus a few values without bytes. Pure; no message quotes the body.
"""

from aggregator.budgets import DEPTH, WEIGHTLESS
from aggregator.schema.avro import Kind, Node, Schema

_LONGEST, _END = 10, 128  # a byte below this is the last one of a number
_SIZES = {Kind.NULL: 0, Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}


def check_bounds(schema: Schema, body: bytes) -> None:
    """Refuse a body that a decoder could not read within its bounds.

    Args:
        schema: The writer's schema.
        body: Without a frame; what lies behind the value is not looked at.

    Raises:
        ValueError: it is cut, nests too deep, or stands for too many values without bytes.
    """
    _Walk(schema, body).value(schema.root, 0, 0)


class _Walk:
    """One walk over one body; every step answers with the position behind what it has passed."""

    def __init__(self, schema: Schema, body: bytes) -> None:
        self._nodes = schema.nodes
        self._body = body
        self._left = WEIGHTLESS.limit

    def value(self, number: int, at: int, depth: int) -> int:
        if depth > DEPTH.limit:
            raise ValueError("nests too deep")
        node = self._nodes[number]
        match node.kind:
            case Kind.RECORD:
                after = at
                for field in node.fields:
                    after = self.value(field.node, after, depth + 1)
            case Kind.UNION:
                after = self._union(node, at, depth)
            case Kind.ARRAY | Kind.MAP:
                after = self._blocks(node, at, depth)
            case _:
                after = self._leaf(node, at)
        if after == at:
            self._left -= 1
            if self._left < 0:
                raise ValueError("stands for too many values without bytes")
        return after

    def _union(self, node: Node, at: int, depth: int) -> int:
        branch, after = self._number(at)
        if not 0 <= branch < len(node.children):
            raise ValueError("is no branch")
        child = node.children[branch]
        return after if self._nodes[child].kind is Kind.NULL else self.value(child, after, depth + 1)

    def _blocks(self, node: Node, at: int, depth: int) -> int:
        while True:
            count, at = self._number(at)
            if count < 0:
                at = self._number(at)[1]
            if count == 0:
                return at
            for _ in range(abs(count)):
                if node.kind is Kind.MAP:
                    at = self._sized(at)
                at = self.value(node.children[0], at, depth + 1)

    def _leaf(self, node: Node, at: int) -> int:
        if node.kind in (Kind.INT, Kind.LONG, Kind.ENUM):
            return self._number(at)[1]
        if node.kind in (Kind.BYTES, Kind.STRING):
            return self._sized(at)
        return self._past(at, _SIZES.get(node.kind, node.size))

    def _sized(self, at: int) -> int:
        size, after = self._number(at)
        return self._past(after, size)

    def _past(self, at: int, size: int) -> int:
        if not 0 <= size <= len(self._body) - at:
            raise ValueError("is cut")
        return at + size

    def _number(self, at: int) -> tuple[int, int]:
        bits = 0
        for place, byte in enumerate(self._body[at : at + _LONGEST]):
            bits |= (byte & (_END - 1)) << (7 * place)
            if byte < _END:
                bits &= 2**64 - 1
                return (bits >> 1) ^ -(bits & 1), at + place + 1
        raise ValueError("is cut")
