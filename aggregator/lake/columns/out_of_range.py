"""Handles numbers that their column cannot hold: a time outside the years 1 to 9999, or a decimal of more digits than
its type has.

Invariant: such a number does not stop its table. Its column has null in that row. The row's column `_out_of_range` has
the original number under the name of its field. A table gets that column with the first such row.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggregator.lake.columns.arrow_types import Array, ArrowLeaf, ArrowRecord, Bounds, Map, Nullable, Shape, Union
from aggregator.lake.columns.plain_schema import numbered

OUT_OF_RANGE_COLUMN = "_out_of_range"
_SHOWN = 100  # numbers of one path in one row: a record full of them must not cost more than other records
_LONGEST = 10**100  # a decimal's bytes may hold any number; central has it whole
Rows = Callable[[], NDArray[np.int64]]


class Note(NamedTuple):
    """A number that is out of range: its row, the path of its field, and its value. The value is None if it is too long
    to be shown.
    """

    row: int
    path: str
    number: int | None


@dataclass(frozen=True)
class ColumnPlace:
    """Describes where in the records an array's values lie.

    Args:
        path: Field path; items of an array are `[]`, values of a map `{}`.
        rows: The row of every value, worked out only when one is noted.
        notes: Takes what is out of range.
    """

    path: str
    rows: Rows
    notes: list[Note] = field(default_factory=list)

    def inside(self, name: str) -> "ColumnPlace":
        """The place of a field inside this struct."""
        return ColumnPlace(f"{self.path}.{name}" if self.path else name, self.rows, self.notes)

    def items(self, mark: str, lists: Any) -> "ColumnPlace":
        """The place of the items of lists that have no offset."""

        def rows() -> NDArray[np.int64]:
            return np.repeat(self.rows(), np.diff(lists.offsets.to_numpy()))

        return ColumnPlace(f"{self.path}{mark}", rows, self.notes)


def null_out_of_range(array: Any, bounds: Bounds, place: ColumnPlace) -> Any:
    """Replace numbers that are out of bounds by null, and note them.

    Args:
        array: Whole numbers, or decimals, whose bounds are those of their digits.
        bounds: Bounds of the numbers.
        place: Place of the values, which takes the notes.
    """
    low, high = _as(bounds.low, array.type), _as(bounds.high, array.type)
    found = pc.min_max(array).as_py()
    if found["min"] is None or (found["min"] >= low and found["max"] <= high):
        return array
    wide = _widest(array)
    outside = pc.fill_null(pc.or_(pc.less(wide, pa.scalar(low)), pc.greater(wide, pa.scalar(high))), fill_value=False)
    rows = place.rows()[np.flatnonzero(outside.to_numpy(zero_copy_only=False))]
    shown = np.flatnonzero(np.arange(len(rows)) - np.searchsorted(rows, rows) < _SHOWN)  # rows ascend
    for row, number in zip(rows[shown].tolist(), array.filter(outside).take(pa.array(shown)).to_pylist(), strict=True):
        place.notes.append(noted(row, place.path, _digits(number)))
    return pc.if_else(outside, pa.scalar(None, array.type), array)


def noted(row: int, path: str, number: int) -> Note:
    """A note of a number, unless that is too long."""
    return Note(row, path, number if abs(number) < _LONGEST else None)


def flags(notes: Iterable[Note], count: int) -> pa.Array:
    """The column: for every row with a note a JSON object of its numbers by field path, a list where one path has more.

    Args:
        notes: In any order.
        count: How many rows there are.
    """
    by_row: dict[int, dict[str, list[int | None]]] = {}
    for row, path, number in notes:
        numbers = by_row.setdefault(row, {}).setdefault(path, [])
        if len(numbers) < _SHOWN:
            numbers.append(number)
    texts: list[str | None] = [None] * count
    for row, paths in by_row.items():
        texts[row] = json.dumps({path: some if len(some) > 1 else some[0] for path, some in paths.items()})
    return pa.array(texts, pa.string())


def with_notes(rows: pa.Table, notes: list[Note]) -> pa.Table:
    """Add further notes to the column of notes.

    Args:
        rows: With or without the column.
        notes: Notes about other fields.
    """
    if not notes:
        return rows
    more = flags(notes, rows.num_rows)
    if OUT_OF_RANGE_COLUMN not in rows.column_names:
        return rows.append_column(OUT_OF_RANGE_COLUMN, more)
    pairs = zip(rows.column(OUT_OF_RANGE_COLUMN).to_pylist(), more.to_pylist(), strict=True)
    both = [json.dumps(json.loads(one) | json.loads(other)) if one and other else one or other for one, other in pairs]
    return rows.set_column(
        rows.column_names.index(OUT_OF_RANGE_COLUMN), OUT_OF_RANGE_COLUMN, pa.array(both, pa.string())
    )


def bare_decimals(shape: Shape, value: Any, path: str, note: Callable[[str, int], None]) -> Any:  # noqa: PLR0911 - one per shape
    """A decoded value whose decimals are bytes, with decimals; null where one has too many digits, which is noted.

    Args:
        shape: What it is.
        value: As `plain_schema.union_unwrapper` gives it.
        path: Of its field.
        note: Takes the path and the digits.
    """
    if value is None:
        return None
    match shape:
        case ArrowLeaf(bounds=bounds) if bounds and pa.types.is_decimal(shape.wire_arrow):
            number = int.from_bytes(value, "big", signed=True)
            if bounds.low <= number <= bounds.high:
                return _as(number, shape.wire_arrow)
            note(path, number)
            return None
        case Nullable(item):
            return bare_decimals(item, value, path, note)
        case Array(item):
            return [bare_decimals(item, one, f"{path}[]", note) for one in value]
        case Map(inner):
            return [one | {"f1": bare_decimals(inner, one["f1"], f"{path}{{}}", note)} for one in value]
        case ArrowRecord(parts) | Union(parts):
            kept = [(numbered(at), name, inner) for at, (name, inner) in enumerate(parts)]
            return {
                at: bare_decimals(inner, value[at], f"{path}.{name}", note) for at, name, inner in kept if at in value
            }
        case _:
            return value


def _as(number: int, kind: pa.DataType) -> Any:
    """A whole number as a value of the type, whatever the decimal context is."""
    if not pa.types.is_decimal(kind):
        return number
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -kind.scale))


def _digits(number: Any) -> int:
    if not isinstance(number, Decimal):
        return int(number)
    sign, digits, _ = number.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def _widest(array: Any) -> Any:
    """Decimals under a type that all their digits fit; comparisons of Arrow trust the declared one."""
    if not pa.types.is_decimal(array.type):
        return array
    kind = pa.decimal128(38, array.type.scale)
    return pa.Array.from_buffers(kind, len(array), array.buffers(), array.null_count, array.offset)
