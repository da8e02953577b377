"""Makes Delta's per-file statistics (its protocol, "Per-file Statistics") from a Parquet file's footer.

Invariant: every value of a column lies within its bounds, because readers skip files by them. A bound that JSON cannot
express exactly is rounded outward or left out.
"""

import json
import math
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]
# Longer texts would make the table's log long. Spark keeps as many characters.
_CHARACTERS = 32
_LAST, _SURROGATES = 0x10FFFF, range(0xD800, 0xE000)
_MS = timedelta(milliseconds=1)


def leaves(schema: pa.Schema) -> Iterator[tuple[Path, pa.DataType]]:
    """Columns and the fields of records within them; what lies in lists and maps has no statistics in Delta."""
    for field in schema:
        yield from _leaves((field.name,), field.type)


def _leaves(path: Path, kind: pa.DataType) -> Iterator[tuple[Path, pa.DataType]]:
    if pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves((*path, field.name), field.type)
    elif not pa.types.is_nested(kind):
        yield path, kind


def with_nan(rows: pa.Table) -> set[Path]:
    """Columns of which a value is not a number: Parquet's bounds leave it out, and Delta's order has it at the end."""
    found = set()
    for path, kind in leaves(rows.schema):
        if pa.types.is_floating(kind):
            column = rows[path[0]]
            values = pc.struct_field(column, list(path[1:])) if path[1:] else column
            if pc.any(pc.is_nan(values)).as_py():
                found.add(path)
    return found


def statistics(footer: Any, unbounded: AbstractSet[Path] = frozenset()) -> str:
    """Delta's statistics of a file as JSON.

    Args:
        footer: The footer of the Parquet file.
        unbounded: Columns with values that its bounds leave out: `with_nan` of each of its row groups.
    """
    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    places = {groups[0].column(at).path_in_schema: at for at in range(footer.num_columns)} if groups else {}
    for path, _ in leaves(footer.schema.to_arrow_schema()):
        chunks = [group.column(places[".".join(path)]) for group in groups]
        found = [chunk.statistics for chunk in chunks]
        if any(one is None or not one.has_null_count for one in found):
            continue
        _put(nulls, path, sum(one.null_count for one in found))
        empty = [one.null_count == chunk.num_values for one, chunk in zip(found, chunks, strict=True)]
        bounds = _bounds([one for one in found if one.has_min_max]) if path not in unbounded else None
        if bounds and all(one.has_min_max or nothing for one, nothing in zip(found, empty, strict=True)):
            for tree, bound in zip((lowest, highest), bounds, strict=True):
                _put(tree, path, bound)
    return json.dumps(
        {"numRecords": footer.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}, allow_nan=False
    )


def _put(tree: dict[str, Any], path: Path, value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _bounds(found: list[Any]) -> tuple[Any, Any] | None:
    """Bounds in JSON's form; None where there are none."""
    try:
        values = [(one.min, one.max) for one in found]
        bounds = (_below(min(low for low, _ in values)), _above(max(high for _, high in values))) if values else None
    except (OverflowError, ValueError):  # a date beyond Python's years
        return None
    return None if bounds is None or None in bounds else bounds


def _below(value: Any) -> Any:
    """The greatest value of JSON's form that is not above this one, or None."""
    if isinstance(value, str):
        return value[:_CHARACTERS]
    return _moment(_floor(value)) if isinstance(value, datetime) else _exact(value)


def _above(value: Any) -> Any:
    """The least value of JSON's form that is not below this one, or None."""
    if isinstance(value, str):
        return value if len(value) <= _CHARACTERS else _next(value[:_CHARACTERS])
    if isinstance(value, datetime):
        return _moment(value if _floor(value) == value else _floor(value) + _MS)
    return _exact(value)


def _next(prefix: str) -> str | None:
    """The smallest text that is greater than every text with this prefix; None where there is none."""
    kept = prefix.rstrip(chr(_LAST))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _floor(value: datetime) -> datetime:
    """Round a time down to whole milliseconds."""
    return value - timedelta(microseconds=value.microsecond % 1000)


def _moment(value: datetime) -> str:
    return f"{value.replace(tzinfo=None).isoformat(timespec='milliseconds')}{'Z' if value.tzinfo else ''}"


def _exact(value: Any) -> Any:
    """A value that JSON represents exactly; None for every other value."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = float(value)
        return number if "e" not in repr(number) and Decimal(repr(number)) == value else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None
