"""Finds leaves that are used beside others: the entity of a shifted date, the fields of a record's conditions.

Invariant: a path leads to one place in a record, through records and unions only, so that a record has at most one
value there. The compiler gives every node along the path a context of its own. Any other path counts as absent. A
record at the end of a path, or an array or a map there or on the way, is no absent value, and cannot be compared.
"""

import re
import struct
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from aggregator.privacy.fields import paths
from aggregator.privacy.fields.leaf import INTEGERS, Leaf, Shown, Value, leaf_of
from aggregator.privacy.fields.raw_values import value_of
from aggregator.privacy.plan.plan import PlanNode, SideInput
from aggregator.schema.avro import CONTAINERS, Kind, Schema

_SHOWN = INTEGERS | {Kind.STRING, Kind.BYTES, Kind.FIXED, Kind.ENUM, Kind.BOOLEAN, Kind.FLOAT, Kind.DOUBLE}
_UUID_BYTES = 16
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_FLOATS = {Kind.FLOAT: struct.Struct("<f"), Kind.DOUBLE: struct.Struct("<d")}


def with_side_inputs(
    schema: Schema, nodes: Sequence[PlanNode], root: int, wanted: Collection[str]
) -> tuple[list[PlanNode], tuple[SideInput, ...], frozenset[str]]:
    """Mark the leaves at these paths.

    Args:
        schema: The writer's.
        nodes: The plan's.
        root: Where a value begins.
        wanted: Paths of names.

    Returns:
        The nodes; their side inputs, several for one path where a union holds several types; and the paths at which a
        record, an array or a map may stand.
    """
    marked, found, uncomparable = list(nodes), list[SideInput](), set[str]()
    for path in sorted(set(wanted)):
        for number in _ends(schema, nodes, root, paths.steps(path)):
            kind = nodes[number].kind
            if kind in _SHOWN:
                marked[number] = replace(marked[number], side_input=len(found))
                found.append(SideInput(path, leaf_of(schema.nodes[nodes[number].source])))
            elif kind in CONTAINERS:
                uncomparable.add(path)
    return marked, tuple(found), frozenset(uncomparable)


def _ends(schema: Schema, nodes: Sequence[PlanNode], number: int, steps: tuple[str, ...]) -> Iterator[int]:
    """What may stand at the end of a path; an array or a map on the way is its end."""
    node = nodes[number]
    if node.kind is Kind.UNION:
        for child in node.children:
            yield from _ends(schema, nodes, child, steps)
    elif not steps or node.kind in (Kind.ARRAY, Kind.MAP):
        yield number
    elif node.kind is Kind.RECORD:
        for item, child in zip(schema.nodes[node.source].fields, node.children, strict=False):
            if item.name == steps[0]:
                yield from _ends(schema, nodes, child, steps[1:])


def entity(value: Shown | None) -> Value | None:
    """The value if it may identify an entity; booleans and floating point numbers do not."""
    return None if isinstance(value, bool | float) else value


def comparable_text(text: str) -> str:
    """A text as it is compared: a UUID (RFC 9562) means the same in small and in capital letters."""
    return text.lower() if _UUID.fullmatch(text) else text


def shown(leaf: Leaf, raw: Any) -> Shown:
    """Convert a raw value to the one that others see.

    Raises:
        UnicodeDecodeError: not with a value that the guard has passed.
    """
    if leaf.kind is Kind.BOOLEAN:
        return raw not in (b"\0", False)
    if leaf.kind in _FLOATS:
        number: float = _FLOATS[leaf.kind].unpack(raw)[0]
        return number
    value = value_of(leaf, raw)
    if not leaf.is_uuid:
        return value
    if isinstance(value, bytes):
        return str(UUID(bytes=value)) if len(value) == _UUID_BYTES else value
    return comparable_text(str(value))
