"""Converts the plain columns that a decoder delivers into the native columns that a table holds.

Invariant: a value changes its type, but not its meaning. A value that the type cannot hold becomes null and is noted,
or raises an error; it never wraps round.
"""

from typing import Any

import pyarrow as pa

from aggregator.lake.columns.arrow_types import (
    Array,
    ArrowLeaf,
    ArrowRecord,
    Enumeration,
    Map,
    Nothing,
    Nullable,
    Shape,
    Union,
)
from aggregator.lake.columns.out_of_range import ColumnPlace, null_out_of_range
from aggregator.lake.columns.plain_schema import kept_branches


def arrow_type(shape: Shape) -> pa.DataType:
    """The native Arrow type of a shape."""
    match shape:
        case ArrowLeaf(casts=casts):
            return casts[-1] if casts else shape.wire_arrow
        case Enumeration():
            return pa.string()
        case Nullable(item):
            return arrow_type(item)
        case Array(item):
            return pa.list_(arrow_type(item))
        case Map(value):
            return pa.map_(pa.string(), arrow_type(value))
        case Union() | ArrowRecord():
            return pa.struct([(name, arrow_type(inner)) for name, inner in named_parts(shape)])
        case Nothing():
            raise AssertionError("nothing has no column")


def named_parts(shape: Union | ArrowRecord) -> list[tuple[str, Shape]]:
    """The names and shapes of a struct's fields; empty fields are left out."""
    if isinstance(shape, Union):
        return [(branch.name, branch.shape) for _, branch in kept_branches(shape.branches)]
    return [(field.name, field.shape) for field in shape.fields if not isinstance(field.shape, Nothing)]


def lift(shape: Shape, array: Any, place: ColumnPlace) -> Any:
    """Convert a plain array to its native type.

    Args:
        shape: The shape of the values.
        array: Arrow array of type `plain.wire_arrow(shape)`, without an offset.
        place: Where the values lie, and what takes those that are out of range.

    Raises:
        pyarrow.ArrowInvalid: a value is outside its native type. Its text may hold the value: never log it.
    """
    match shape:
        case ArrowLeaf(casts=casts, bounds=bounds):
            array = array if bounds is None else null_out_of_range(array, bounds, place)
            for step in casts:
                array = array.cast(step)
            return array
        case Enumeration(symbols):
            indices = array.cast(pa.int32())
            return pa.DictionaryArray.from_arrays(indices, pa.array(symbols, pa.string())).cast(pa.string())
        case Nullable(item):
            return lift(item, array, place)
        case Array(item):
            values = lift(item, array.values, place.items("[]", array))
            return pa.ListArray.from_arrays(array.offsets.cast(pa.int32()), values, mask=_nulls(array))
        case Map(value):
            entries = array.values
            keys = entries.field(0).cast(pa.string())
            values = lift(value, entries.field(1), place.items("{}", array))
            return pa.MapArray.from_arrays(array.offsets.cast(pa.int32()), keys, values, mask=_nulls(array))
        case Union() | ArrowRecord():
            parts = named_parts(shape)
            # Flattened: below a null record a decoder may leave an empty value, which the cast to a fixed refuses.
            children = [
                lift(inner, child, place.inside(name))
                for (name, inner), child in zip(parts, array.flatten(), strict=True)
            ]
            return pa.StructArray.from_arrays(children, names=[name for name, _ in parts], mask=_nulls(array))
        case Nothing():
            raise AssertionError("nothing has no column")


def _nulls(array: Any) -> Any:
    return array.is_null() if array.null_count else None
