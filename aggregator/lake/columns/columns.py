"""Defines the columns of a lake table, and how they grow. Eleven fixed columns come first, then one column for each
field of the central schemas.

Invariant: every table has the fixed columns, and no field takes the name of a fixed column. A column keeps its type. A
schema that asks for another type is refused, and the refusal tells the difference.
"""

from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import NamedTuple

import pyarrow as pa

from aggregator.errors import HoldError
from aggregator.lake.columns.arrow_types import ArrowRecord, Shape, read_shape
from aggregator.lake.columns.native_columns import arrow_type, named_parts
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN

FIXED_COLUMNS = pa.schema(
    [
        ("_edge", pa.string()),
        ("_topic", pa.string()),
        ("_partition", pa.int32()),
        ("_offset", pa.int64()),
        ("_incarnation", pa.int32()),
        ("_timestamp", pa.timestamp("us", "UTC")),
        ("_key", pa.binary()),
        ("_deleted", pa.bool_()),
        ("_central_topic", pa.string()),
        ("_central_partition", pa.int32()),
        ("_central_offset", pa.int64()),
    ]
)
DAY_COLUMN = "_day"  # of a table that is partitioned by day: the UTC date of `_timestamp`
_RESERVED = frozenset(name.casefold() for name in (*FIXED_COLUMNS.names, OUT_OF_RANGE_COLUMN))
# Avro's own promotions, and the types that decoded values of the narrower type may be written as.
_WIDER = {
    (pa.int32(), pa.int64()),
    (pa.int32(), pa.float64()),
    (pa.float32(), pa.float64()),
    (pa.string(), pa.binary()),
}


TypePromotion = Callable[[pa.DataType, pa.DataType], bool]


class Column(NamedTuple):
    """One column of a central schema's records: its name in the table, and what it holds."""

    name: str
    shape: Shape


def columns_of(record: ArrowRecord) -> tuple[Column, ...]:
    """The columns of a record's fields; a field named like a fixed column becomes `f_<name>`.

    Raises:
        HoldError: two fields differ in case only, and table formats compare names without case.
    """
    columns = [Column(column_name(name), shape) for name, shape in named_parts(record)]
    seen: dict[str, str] = {}
    for column in columns:
        folded = column.name.casefold()
        if folded in seen:
            raise HoldError(
                f"the lake cannot hold columns {seen[folded]} and {column.name} side by side: tables ignore case",
                hint="drop one of the two fields in the policy",
            )
        seen[folded] = column.name
    return tuple(columns)


def column_name(name: str) -> str:
    """The column of a field, which has another name where the hub has a column of that name."""
    return f"f_{name}" if name.casefold() in _RESERVED else name


def arrow_schema(schema: str) -> pa.Schema:
    """Arrow schema of a table that holds this central schema: the fixed columns, then its fields, all nullable.

    Raises:
        HoldError: no table can hold the schema.
    """
    fields = [pa.field(name, arrow_type(shape)) for name, shape in columns_of(read_shape(schema))]
    return pa.schema([*FIXED_COLUMNS, *fields])


def is_promotable(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether every value of the narrow type is one of the wide type, as Avro promotes its types."""
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(narrow.scale == wide.scale and narrow.precision < wide.precision)
    return (narrow, wide) in _WIDER


def no_promotion(narrow: pa.DataType, wide: pa.DataType) -> bool:  # noqa: ARG001 - a `TypePromotion`
    """False: no column may change its type."""
    return False


def merge_schemas(table: pa.Schema, other: pa.Schema, promotes: TypePromotion = no_promotion) -> pa.Schema:
    """The table's schema widened by another schema's new columns, and new fields inside of nested ones.

    Args:
        table: The table's schema.
        other: The schema of the rows to write.
        promotes: Whether a column of one type can become one of another; all others keep their types.

    Raises:
        HoldError: a column changed its type in a way that the table cannot hold; the message is the difference.
    """
    conflicts: list[str] = []
    fields = _Merge(promotes, conflicts).fields(list(table), list(other), "")
    if conflicts:
        raise HoldError(
            "the schema does not fit the table: " + "; ".join(conflicts),
            hint="send the topic to another table (`lake:` of its rule, or of one before it for this topic alone): a"
            " new table begins with the widest type that its topics have had; where edges differ in it, give each a"
            " table of its own, `{edge}_{topic}`",
        )
    return pa.schema(fields)


def initial_schema(schemas: Iterable[pa.Schema], promotes: TypePromotion) -> pa.Schema | None:
    """The widest of the schemas if the format could not widen a table to it later; else None.

    Args:
        schemas: Schemas of all records that the table is to hold.
        promotes: Types that its columns can change to later.

    Returns:
        The widest schema; None if the table can begin with any of them, or if no table holds all.
    """
    known = list(schemas)
    if not known or _holds_all(known, promotes) is not None:
        return None
    return _holds_all(known, is_promotable)


def _holds_all(schemas: list[pa.Schema], promotes: TypePromotion) -> pa.Schema | None:
    try:
        return reduce(partial(merge_schemas, promotes=promotes), schemas)
    except HoldError:
        return None


class _Merge(NamedTuple):
    promotes: TypePromotion
    conflicts: list[str]

    def fields(self, ours: list[pa.Field], theirs: list[pa.Field], place: str) -> list[pa.Field]:
        incoming = {field.name: field for field in theirs}
        spelled = {field.name.casefold(): field.name for field in ours}
        fields = [
            pa.field(field.name, self.type(field.type, incoming[field.name].type, f"{place}{field.name}"))
            if field.name in incoming
            else field
            for field in ours
        ]
        for name, field in incoming.items():
            spelling = spelled.get(name.casefold())
            if spelling is None:
                fields.append(pa.field(name, field.type))
            elif spelling != name:
                self.conflicts.append(f"{place}{name} differs from {place}{spelling} in case only")
        return fields

    def type(self, ours: pa.DataType, theirs: pa.DataType, place: str) -> pa.DataType:
        if ours == theirs or is_promotable(theirs, ours):
            return ours
        if self.promotes(ours, theirs):
            return theirs
        if pa.types.is_struct(ours) and pa.types.is_struct(theirs):
            return pa.struct(self.fields(list(ours), list(theirs), f"{place}."))
        if pa.types.is_list(ours) and pa.types.is_list(theirs):
            return pa.list_(self.type(ours.value_type, theirs.value_type, f"{place}[]"))
        if pa.types.is_map(ours) and pa.types.is_map(theirs):
            return pa.map_(pa.string(), self.type(ours.item_type, theirs.item_type, f"{place}{{}}"))
        wider = ", to which the table's format does not widen" if is_promotable(ours, theirs) else ""
        self.conflicts.append(f"{place} is {ours} in the table and {theirs} in the schema{wider}")
        return ours


def conform_to_schema(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows under a schema that `merge_schemas` made wider: missing columns and nested fields are null."""
    columns = [
        _conform_array(table.column(field.name).combine_chunks(), field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _conform_array(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if array.type == wanted:
        return array
    mask = array.is_null() if array.null_count else None
    if pa.types.is_struct(wanted):
        have = {field.name: index for index, field in enumerate(array.type)}
        children = [
            _conform_array(array.field(have[field.name]), field.type)
            if field.name in have
            else pa.nulls(len(array), field.type)
            for field in wanted
        ]
        return pa.StructArray.from_arrays(children, fields=list(wanted), mask=mask)
    if pa.types.is_map(wanted):
        items = _conform_array(array.items, wanted.item_type)
        return pa.MapArray.from_arrays(array.offsets, array.keys, items, mask=mask).cast(wanted)
    if pa.types.is_list(wanted):
        return pa.ListArray.from_arrays(array.offsets, _conform_array(array.values, wanted.value_type), mask=mask).cast(
            wanted
        )
    return array.cast(wanted)
