"""A structural walk over a record's bytes, before any decoder sees them.

Invariants: no byte outside the record is looked at, nesting and work are bounded by limits and by the bytes that are
there, and a record that passes is decoded by every correct reader to the same values. Refuses what the specification
does not allow: bad indices, sizes, booleans, numbers too long, text that is not UTF-8, bytes left over.
"""

from collections.abc import Callable, Sequence

from aggregator.errors import Reason
from aggregator.privacy.batch.guard import MAXIMUM_DEPTH, MAXIMUM_WEIGHTLESS, Malformed, is_read, weightless_nodes
from aggregator.privacy.plan.plan import Call, PlanNode, StripPlan
from aggregator.schema.avro import Kind

_LONG_BYTES, _INT_BYTES = 10, 5
_LONG_LIMIT, _INT_LIMIT = 2**64, 2**32

# (bytes, position, depth) to the position after the value.
_Check = Callable[[bytes, int, int], int]


class Guard:
    """Checks values of one plan's writer schema."""

    def __init__(self, plan: StripPlan) -> None:
        self._nodes = plan.nodes
        self._left = 0
        weightless = weightless_nodes(plan.nodes)
        self._checks: list[_Check] = [self._check(node, weightless, plan.calls) for node in plan.nodes]
        self._root = plan.root

    def check(self, body: bytes) -> None:
        """Walk one value.

        Raises:
            Malformed: UNDECODABLE or TOO_DEEP.
        """
        self._left = MAXIMUM_WEIGHTLESS
        if self._checks[self._root](body, 0, 0) != len(body):
            raise Malformed

    def _check(self, node: PlanNode, weightless: set[int], calls: Sequence[Call]) -> _Check:
        is_weightless = weightless.issuperset(node.children)
        match node.kind:
            case Kind.RECORD:
                return self._record(node, is_weightless=is_weightless)
            case Kind.UNION:
                return self._union(node)
            case Kind.ARRAY | Kind.MAP:
                return self._blocks(node, is_weightless=is_weightless)
        return _leaf(node, calls)

    def _record(self, node: PlanNode, *, is_weightless: bool) -> _Check:
        children = node.children

        def check(data: bytes, at: int, depth: int) -> int:
            if depth >= MAXIMUM_DEPTH:
                raise Malformed(Reason.TOO_DEEP)
            if is_weightless:
                self._afford(1, 0, is_weightless=True)
            for child in children:
                at = self._checks[child](data, at, depth + 1)
            return at

        return check

    def _union(self, node: PlanNode) -> _Check:
        children = node.children
        index = _index_of(len(children))

        def check(data: bytes, at: int, depth: int) -> int:
            if depth >= MAXIMUM_DEPTH:
                raise Malformed(Reason.TOO_DEEP)
            branch, at = index(data, at)
            return self._checks[children[branch]](data, at, depth + 1)

        return check

    def _blocks(self, node: PlanNode, *, is_weightless: bool) -> _Check:
        children = node.children

        def check(data: bytes, at: int, depth: int) -> int:
            if depth >= MAXIMUM_DEPTH:
                raise Malformed(Reason.TOO_DEEP)
            while True:
                count, at = _varint(data, at, _LONG_BYTES, _LONG_LIMIT)
                if count == 0:
                    return at
                end = None
                if count < 0:
                    count = -count
                    size, at = _varint(data, at, _LONG_BYTES, _LONG_LIMIT)
                    end = at + size
                self._afford(count, len(data) - at, is_weightless=is_weightless)
                for _ in range(count):
                    for child in children:
                        at = self._checks[child](data, at, depth + 1)
                if end is not None and at != end:
                    raise Malformed

        return check

    def _afford(self, count: int, remaining: int, *, is_weightless: bool) -> None:
        """Every item has a byte at least; those without share one small allowance per record."""
        if is_weightless:
            self._left -= count
        if self._left < 0 or (count > remaining and not is_weightless):
            raise Malformed


def _varint(data: bytes, at: int, longest: int, limit: int) -> tuple[int, int]:
    """A zigzag number of at most `longest` bytes below `limit`, and the position after it."""
    if at < len(data) and data[at] < 0x80:
        return (data[at] >> 1) ^ -(data[at] & 1), at + 1
    number = shift = 0
    for position in range(at, min(at + longest, len(data))):
        byte = data[position]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            if number >= limit:
                raise Malformed
            return (number >> 1) ^ -(number & 1), position + 1
        shift += 7
    raise Malformed


def _int(data: bytes, at: int, _depth: int) -> int:
    return _varint(data, at, _INT_BYTES, _INT_LIMIT)[1]


def _long(data: bytes, at: int, _depth: int) -> int:
    return _varint(data, at, _LONG_BYTES, _LONG_LIMIT)[1]


def _boolean(data: bytes, at: int, _depth: int) -> int:
    if data[at : at + 1] not in (b"\0", b"\1"):
        raise Malformed
    return at + 1


def _bytes(data: bytes, at: int, _depth: int) -> int:
    size, at = _varint(data, at, _LONG_BYTES, _LONG_LIMIT)
    if not 0 <= size <= len(data) - at:
        raise Malformed
    return at + size


def _text(data: bytes, at: int, depth: int) -> int:
    end = _bytes(data, at, depth)
    _, at = _varint(data, at, _LONG_BYTES, _LONG_LIMIT)
    try:
        data[at:end].decode()
    except UnicodeDecodeError:
        raise Malformed from None
    return end


def _sized(size: int) -> _Check:
    def check(data: bytes, at: int, _depth: int) -> int:
        if size > len(data) - at:
            raise Malformed
        return at + size

    return check


def _index_of(count: int) -> Callable[[bytes, int], tuple[int, int]]:
    def read(data: bytes, at: int) -> tuple[int, int]:
        index, at = _varint(data, at, _INT_BYTES, _INT_LIMIT)
        if not 0 <= index < count:
            raise Malformed
        return index, at

    return read


def _index(count: int) -> _Check:
    read = _index_of(count)
    return lambda data, at, _depth: read(data, at)[1]


_SIMPLE: dict[Kind, _Check] = {
    Kind.NULL: lambda _data, at, _depth: at,
    Kind.BOOLEAN: _boolean,
    Kind.INT: _int,
    Kind.LONG: _long,
    Kind.FLOAT: _sized(4),
    Kind.DOUBLE: _sized(8),
    Kind.BYTES: _bytes,
}


def _leaf(node: PlanNode, calls: Sequence[Call]) -> _Check:
    match node.kind:
        case Kind.FIXED:
            return _sized(node.size)
        case Kind.STRING:
            return _text if is_read(node, calls) else _bytes
        case Kind.ENUM:
            return _index(node.size)
    return _SIMPLE[node.kind]
