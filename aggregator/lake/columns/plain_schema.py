"""Makes the plain schema: another Avro schema for the same bytes, in the few types that every decoder reads correctly.

Enums become longs, maps become arrays of entries, and `null` fields vanish. A second use of a named type becomes a type
of its own. Each branch of a union becomes a record of one field, so that the decoder says which branch it was.

Invariant: encoded values are byte for byte the same under both schemas (Avro 1.12, "Binary Encoding").
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa

from aggregator.lake.columns.arrow_types import (
    Array,
    ArrowBranch,
    ArrowField,
    ArrowLeaf,
    ArrowRecord,
    Enumeration,
    Map,
    Nothing,
    Nullable,
    Shape,
    Union,
)
from aggregator.schema.wire import HEADER_BYTES

FRAME_FIELD = "frame"  # the last field; a shape's own fields have numbers as names, so the names cannot collide


def plain_schema(record: ArrowRecord, *, bare: bool = False) -> dict[str, Any]:
    """The plain schema of `record`, followed by the next record's five frame bytes (see `decode`).

    Args:
        record: The shape.
        bare: Decimals are read as the bytes that they are: a decoder rounds one of more digits than its schema says.
    """
    names = (f"t{number}" for number in itertools.count())
    plain: dict[str, Any] = _plain(_bare(record) if bare else record, names)
    frame = {"type": "fixed", "name": next(names), "size": HEADER_BYTES}
    return plain | {"fields": [*plain["fields"], {"name": FRAME_FIELD, "type": frame}]}


def _bare(shape: Shape) -> Shape:  # noqa: PLR0911 - one per shape
    match shape:
        case ArrowLeaf(wire=tuple() as wire):
            return replace(shape, wire=tuple(one for one in wire if one[0] in ("type", "size")))
        case Nullable(item, null_first):
            return Nullable(_bare(item), null_first)
        case Array(item):
            return Array(_bare(item))
        case Map(value):
            return Map(_bare(value))
        case Union(branches):
            return Union(tuple(ArrowBranch(one.name, _bare(one.shape)) for one in branches))
        case ArrowRecord(fields):
            return ArrowRecord(tuple(ArrowField(one.name, _bare(one.shape)) for one in fields))
        case _:
            return shape


def numbered(index: int) -> str:
    """Plain name of a record's field number `index`."""
    return f"f{index}"


def _plain(shape: Shape, names: Iterator[str]) -> Any:  # noqa: PLR0911 - one per shape
    match shape:
        case ArrowLeaf(wire=str() as wire):
            return wire
        case ArrowLeaf(wire=tuple() as wire):
            attributes = dict(wire)
            return attributes | ({"name": next(names)} if attributes["type"] == "fixed" else {})
        case Nothing():
            return "null"
        case Enumeration():
            return "long"
        case Nullable(item, null_first):
            plain = _plain(item, names)
            return ["null", plain] if null_first else [plain, "null"]
        case Array(item):
            return {"type": "array", "items": _plain(item, names)}
        case Map(value):
            entry = ArrowRecord((ArrowField("key", _KEY), ArrowField("value", value)))
            return {"type": "array", "items": _plain(entry, names)}
        case Union(branches):
            return [_plain_branch(branch, names) for branch in branches]
        case ArrowRecord(fields):
            return {
                "type": "record",
                "name": next(names),
                "fields": [
                    {"name": numbered(index), "type": _plain(field.shape, names)}
                    for index, field in enumerate(fields)
                    if not isinstance(field.shape, Nothing)
                ],
            }


_KEY = ArrowLeaf("string", pa.large_string(), (pa.string(),))


def _plain_branch(branch: ArrowBranch, names: Iterator[str]) -> Any:
    """Null stays null (a union may hold one); everything else is wrapped in a record of one field."""
    if branch.name == "null":
        return "null"
    fields = [] if isinstance(branch.shape, Nothing) else [{"name": "v", "type": _plain(branch.shape, names)}]
    return {"type": "record", "name": f"{next(names)}_{branch.name}", "fields": fields}


def holds_union(shape: Shape) -> bool:
    """Whether a union of several branches lies anywhere in it: the one plain shape that polars cannot decode."""
    match shape:
        case Union():
            return True
        case Nullable(item) | Array(item) | Map(item):
            return holds_union(item)
        case ArrowRecord(fields):
            return any(holds_union(field.shape) for field in fields)
        case _:
            return False


def wire_arrow(shape: Shape) -> pa.DataType:  # noqa: PLR0911 - one per shape
    """Arrow type in which a decoder delivers a plain shape."""
    match shape:
        case ArrowLeaf():
            return shape.wire_arrow
        case Enumeration():
            return pa.int64()
        case Nullable(item):
            return wire_arrow(item)
        case Array(item):
            return pa.large_list(wire_arrow(item))
        case Map(value):
            return pa.large_list(pa.struct([("f0", pa.large_string()), ("f1", wire_arrow(value))]))
        case Union(branches):
            return pa.struct([(numbered(index), wire_arrow(branch.shape)) for index, branch in kept_branches(branches)])
        case ArrowRecord(fields):
            return pa.struct(
                [
                    (numbered(index), wire_arrow(field.shape))
                    for index, field in enumerate(fields)
                    if not isinstance(field.shape, Nothing)
                ]
            )
        case Nothing():
            raise AssertionError("nothing has no column")


def kept_branches(branches: tuple[ArrowBranch, ...]) -> list[tuple[int, ArrowBranch]]:
    """The union's branches that hold something, each with its index."""
    return [(index, branch) for index, branch in enumerate(branches) if not isinstance(branch.shape, Nothing)]


def union_unwrapper(shape: Shape) -> Callable[[Any], Any]:
    """A function that turns fastavro's values of a plain shape into what Arrow takes: unions become dicts."""
    if not holds_union(shape):
        return lambda value: value
    match shape:
        case Nullable(item):
            inner = union_unwrapper(item)
            return lambda value: None if value is None else inner(value)
        case Array(item):
            inner = union_unwrapper(item)
            return lambda value: [inner(one) for one in value]
        case Map(value_shape):
            inner = union_unwrapper(value_shape)
            return lambda value: [{"f0": entry["f0"], "f1": inner(entry["f1"])} for entry in value]
        case ArrowRecord(fields):
            inners = {
                numbered(index): union_unwrapper(f.shape) for index, f in enumerate(fields) if holds_union(f.shape)
            }
            return lambda value: {name: inners[name](one) if name in inners else one for name, one in value.items()}
        case _:
            assert isinstance(shape, Union)
            return _union_unwrapped(shape)


def _union_unwrapped(union: Union) -> Callable[[Any], Any]:
    inners = [
        (numbered(index), branch.name, union_unwrapper(branch.shape)) for index, branch in enumerate(union.branches)
    ]
    by_name = {name: (field, inner) for field, name, inner in inners}
    sole = next(iter(by_name.values()))

    def unwrap(value: Any) -> Any:
        if value is None:
            return None
        # fastavro names the branch only where several branches are records. In a union of one branch it does not.
        field, inner = by_name[value[0].partition("_")[2]] if isinstance(value, tuple) else sole
        content = value[1] if isinstance(value, tuple) else value
        return {field: inner(content["v"])} if content else {}

    return unwrap
