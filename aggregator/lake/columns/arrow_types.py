"""Turns an Avro schema into a small tree of shapes. A shape says how a value's bytes lie on the wire, and which Arrow
type holds the value.

Invariant: no other module of the lake decides anything about a type. Schemas that no table format can hold are refused,
in a sentence that names the place. These are recursive types, decimals of more than 38 digits, and arrays and maps
whose items are empty.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from aggregator.budgets import TABLE_COLUMNS
from aggregator.errors import DeadLetterError, HoldError
from aggregator.schema.avro import CONTAINERS, Kind, Node, Schema, parse

MAXIMUM_DECIMAL_DIGITS = 38


class Bounds(NamedTuple):
    """The lowest and the highest number, in the value's wire form, that its column and every reader of the column can
    hold.
    """

    low: int
    high: int


@dataclass(frozen=True, slots=True)
class ArrowLeaf:
    """Describes a value without parts.

    Attributes:
        wire: The bare Avro type, or the attributes of a fixed or a decimal.
        wire_arrow: The Arrow type that a decoder delivers for it.
        casts: Checked casts, in order, that lead to the type that a table holds.
        bounds: Of a time, a date, or the digits of a decimal; none for what holds whatever its wire type holds.
    """

    wire: str | tuple[tuple[str, Any], ...]
    wire_arrow: pa.DataType
    casts: tuple[pa.DataType, ...] = ()
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Nothing:
    """`null`, or a record without fields. It has no bytes, and therefore no column."""


@dataclass(frozen=True, slots=True)
class Enumeration:
    """An enum; the table holds its symbols as strings."""

    symbols: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nullable:
    """A union of null and one other shape."""

    item: "Shape"
    null_first: bool


class ArrowBranch(NamedTuple):
    """One branch of a union, under its Avro type's name."""

    name: str
    shape: "Shape"


@dataclass(frozen=True, slots=True)
class Union:
    """Any other union; the table holds a struct with one nullable field per branch."""

    branches: tuple[ArrowBranch, ...]


@dataclass(frozen=True, slots=True)
class Array:
    """Describes an array by the shape of its items."""

    item: "Shape"


@dataclass(frozen=True, slots=True)
class Map:
    """Describes a map from strings by the shape of its values."""

    value: "Shape"


class ArrowField(NamedTuple):
    """Describes a field of a record by its name and shape."""

    name: str
    shape: "Shape"


@dataclass(frozen=True, slots=True)
class ArrowRecord:
    """Describes a record by its fields."""

    fields: tuple[ArrowField, ...]


Shape = ArrowLeaf | Nothing | Enumeration | Nullable | Union | Array | Map | ArrowRecord

_INT = (pa.int32(),)
_PRIMITIVES = {
    "boolean": ArrowLeaf("boolean", pa.bool_()),
    # Read as long, then narrowed with a check: polars truncates an int that is too long without an error.
    "int": ArrowLeaf("long", pa.int64(), _INT),
    "long": ArrowLeaf("long", pa.int64()),
    "float": ArrowLeaf("float", pa.float32()),
    "double": ArrowLeaf("double", pa.float64()),
    "string": ArrowLeaf("string", pa.large_string(), (pa.string(),)),
    "bytes": ArrowLeaf("bytes", pa.large_binary(), (pa.binary(),)),
}
# These logical types are numbers on the wire, and are read as numbers: polars turns a time that is out of range into
# null. timestamp-nanos stays a long, because tables hold microseconds. Times and dates are those of the years 1 to
# 9999.
_DAYS = Bounds(-719_162, 2_932_896)
_DAY_MS = 86_400_000
_MILLIS = Bounds(_DAYS.low * _DAY_MS, (_DAYS.high + 1) * _DAY_MS - 1)
_MICROS = Bounds(_MILLIS.low * 1000, (_MILLIS.high + 1) * 1000 - 1)
# Microseconds of the day. Delta has no type for a time of day, and Spark cannot read an Iceberg table that has one.
_TIME = (pa.time64("us"), pa.int64())
_LOGICAL = {
    ("int", "date"): ((*_INT, pa.date32()), _DAYS),
    ("int", "time-millis"): ((*_INT, pa.time32("ms"), *_TIME), Bounds(0, _DAY_MS - 1)),
    ("long", "time-micros"): (_TIME, Bounds(0, _DAY_MS * 1000 - 1)),
    ("long", "timestamp-millis"): ((pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")), _MILLIS),
    ("long", "timestamp-micros"): ((pa.timestamp("us", "UTC"),), _MICROS),
    ("long", "local-timestamp-millis"): ((pa.timestamp("ms"), pa.timestamp("us")), _MILLIS),
    ("long", "local-timestamp-micros"): ((pa.timestamp("us"),), _MICROS),
}
RECORD_TIMES = _MILLIS  # a record's own timestamp is in milliseconds


def read_shape(text: str) -> ArrowRecord:
    """The shape of a record's value; a schema that is no record becomes a record with one field `value`.

    Args:
        text: Avro schema, as the registry has it.

    Raises:
        HoldError: no table can hold it; the message says where and why.
    """
    try:
        schema = parse(text)
    except DeadLetterError as error:
        raise _type_hold("value", error.message) from None
    shape = _Shapes(schema).shape(schema.root, "value", ())
    return shape if isinstance(shape, ArrowRecord) else ArrowRecord((ArrowField("value", shape),))


class _Shapes:
    """Makes shapes from a schema's nodes. A type that is used at several places is made, and counted, at each."""

    def __init__(self, schema: Schema) -> None:
        self._nodes = schema.nodes
        self._left = TABLE_COLUMNS.limit

    def shape(self, number: int, place: str, around: tuple[int, ...]) -> Shape:
        """Shape of node `number`; `place` names it in refusals, `around` are the nodes that it lies in."""
        node = self._nodes[number]
        self._left -= 1
        if self._left < 0:
            raise _type_hold("value", f"more than {TABLE_COLUMNS.limit:,} columns, inner ones counted")
        if number in around:
            raise _type_hold(place, f"type {node.name} contains itself, and a column has a fixed depth")
        around = (*around, number)
        if node.kind in CONTAINERS:
            return self._container(node, place, around)
        if node.kind is Kind.NULL:
            return Nothing()
        if node.kind is Kind.ENUM:
            return Enumeration(node.symbols)
        return _leaf(node, place)

    def _container(self, node: Node, place: str, around: tuple[int, ...]) -> Shape:
        if node.kind is Kind.UNION:
            return self._union(node, place, around)
        if node.kind is Kind.RECORD:
            fields = tuple(
                ArrowField(one.name, self.shape(one.node, f"{place}.{one.name}", around)) for one in node.fields
            )
            return ArrowRecord(fields) if any(not isinstance(field.shape, Nothing) for field in fields) else Nothing()
        inside = f"{place}[]" if node.kind is Kind.ARRAY else f"{place}{{}}"
        item = self.shape(node.children[0], inside, around)
        if isinstance(item, Nothing):
            raise _type_hold(inside, "items that hold nothing")
        return Array(item) if node.kind is Kind.ARRAY else Map(item)

    def _union(self, node: Node, place: str, around: tuple[int, ...]) -> Shape:
        shapes = [self.shape(child, place, around) for child in node.children]
        kinds = [self._nodes[child].kind for child in node.children]
        if len(shapes) == 2 and Kind.NULL in kinds:  # noqa: PLR2004 - null and one other
            item = shapes[1 - kinds.index(Kind.NULL)]
            if not isinstance(item, Nothing):
                return Nullable(item, null_first=kinds[0] is Kind.NULL)
        if all(isinstance(shape, Nothing) for shape in shapes):
            raise _type_hold(place, "a union of branches that hold nothing")
        names = [(self._nodes[child].name or self._nodes[child].kind).rpartition(".")[2] for child in node.children]
        return Union(tuple(ArrowBranch(name, shape) for name, shape in zip(_distinct(names), shapes, strict=True)))


def _distinct(names: list[str]) -> list[str]:
    """Two named types may share their last name; a number keeps the fields apart."""
    folded = [name.casefold() for name in names]
    return [f"{name}_{index}" if folded[index] in folded[:index] else name for index, name in enumerate(names)]


def _leaf(node: Node, place: str) -> ArrowLeaf:
    logical = node.logical.name if node.logical else ""
    wire: tuple[tuple[str, Any], ...] = (("type", str(node.kind)),)
    if node.kind is Kind.FIXED:
        wire = (*wire, ("size", node.size))
    if logical == "decimal" and node.logical and node.kind in (Kind.BYTES, Kind.FIXED):
        digits, scale = node.logical.precision or 0, node.logical.scale or 0
        if digits > MAXIMUM_DECIMAL_DIGITS:
            raise _type_hold(place, f"a decimal of {digits} digits; tables hold {MAXIMUM_DECIMAL_DIGITS}")
        if 0 <= scale <= digits and digits:  # else it is bytes, as the specification says of an invalid logical type
            attributes = (*wire, ("logicalType", logical), ("precision", digits), ("scale", scale))
            return ArrowLeaf(attributes, pa.decimal128(digits, scale), bounds=Bounds(1 - 10**digits, 10**digits - 1))
    if node.kind is Kind.FIXED:
        return ArrowLeaf(wire, pa.large_binary(), (pa.binary(), pa.binary(node.size)))
    plain = _PRIMITIVES[node.kind]
    casts, bounds = _LOGICAL.get((str(node.kind), logical), (plain.casts, None))
    return ArrowLeaf(plain.wire, plain.wire_arrow, casts, bounds)


def _type_hold(place: str, reason: str) -> HoldError:
    return HoldError(
        f"the lake cannot hold {place}: {reason}",
        hint="leave `lake:` off this topic; or drop the field in the policy and make a new generation of topic and "
        "table: aggregator backfill run --into v2",
    )
