"""Columns of a table: names, types, growth, and what is refused."""

import json

import pyarrow as pa
import pytest

from aggregator.errors import HoldError
from aggregator.lake.columns.columns import (
    FIXED_COLUMNS,
    arrow_schema,
    conform_to_schema,
    initial_schema,
    is_promotable,
    merge_schemas,
    no_promotion,
)


def schema(*fields: tuple[str, object]) -> str:
    return json.dumps(
        {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    )


def added(text: str) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in list(arrow_schema(text))[len(FIXED_COLUMNS) :]}


@pytest.mark.parametrize(
    ("avro", "arrow"),
    [
        ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "timestamp-nanos"}, pa.int64()),
        ({"type": "long", "logicalType": "local-timestamp-micros"}, pa.timestamp("us")),
        ({"type": "int", "logicalType": "time-millis"}, pa.int64()),
        ({"type": "fixed", "name": "D", "size": 12, "logicalType": "duration"}, pa.binary(12)),
        ({"type": "fixed", "name": "D", "size": 8, "logicalType": "decimal", "precision": 18}, pa.decimal128(18, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, pa.string()),
        ({"type": "map", "values": ["null", "int"]}, pa.map_(pa.string(), pa.int32())),
        (["null", "string", "bytes"], pa.struct([("string", pa.string()), ("bytes", pa.binary())])),
    ],
)
def test_types_are_native(avro, arrow):
    """Every Avro type has one Arrow type, and an invalid logical type is the type below it."""
    assert added(schema(("f", avro))) == {"f": arrow}


def test_a_field_named_like_a_fixed_column_gets_a_prefix():
    """Fixed columns keep their names, in any case of letters."""
    assert list(added(schema(("_edge", "string"), ("_KEY", "bytes"), ("other", "int")))) == [
        "f__edge",
        "f__KEY",
        "other",
    ]


def test_null_fields_have_no_column():
    """A field that can hold nothing but null takes no column, at any level."""
    inner = {"type": "record", "name": "I", "fields": [{"name": "n", "type": "null"}]}
    assert list(added(schema(("a", "null"), ("b", inner), ("c", "int")))) == ["c"]


def test_a_schema_that_is_no_record_has_a_value_column():
    """A bare type becomes the column `value`."""
    assert added('"long"') == {"value": pa.int64()}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (schema(("next", ["null", "R"])), "contains itself"),
        (schema(("d", {"type": "bytes", "logicalType": "decimal", "precision": 39})), "39 digits"),
        (schema(("a", {"type": "array", "items": "null"})), "hold nothing"),
        (schema(("a", "int"), ("A", "int")), "ignore case"),
        (schema(("_edge", "int"), ("f__edge", "int")), "ignore case"),
        ('{"type": "record"}', "refused"),
    ],
)
def test_what_no_table_can_hold_is_refused_with_a_sentence(text, reason):
    """The refusal is a hold that says why and what to do."""
    with pytest.raises(HoldError, match=reason) as caught:
        arrow_schema(text)
    assert caught.value.hint


def test_merging_adds_columns_and_nested_fields():
    """New fields come last at their level; the table's own order stays."""
    ours = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.string())]))])
    theirs = pa.schema([("s", pa.struct([("y", pa.int32()), ("x", pa.string())])), ("b", pa.string())])
    assert merge_schemas(ours, theirs) == pa.schema(
        [("a", pa.int64()), ("s", pa.struct([("x", pa.string()), ("y", pa.int32())])), ("b", pa.string())]
    )


def test_a_narrower_type_is_written_as_the_tables_wider_one():
    """Avro's own promotions do not hold a table that already has the wider type."""
    ours = pa.schema([("a", pa.int64()), ("l", pa.list_(pa.struct([("d", pa.float64())])))])
    theirs = pa.table(
        {"a": pa.array([1], pa.int32()), "l": pa.array([[{"d": 1.5}]], pa.list_(pa.struct([("d", pa.float32())])))}
    )
    assert merge_schemas(ours, theirs.schema) == ours
    assert conform_to_schema(theirs, ours).to_pylist() == [{"a": 1, "l": [{"d": 1.5}]}]


def test_a_conflict_is_held_with_the_difference():
    """Every changed column is named with both types."""
    ours = pa.schema([("a", pa.int32()), ("s", pa.struct([("x", pa.string())]))])
    theirs = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int32())])), ("S", pa.int32())])
    with pytest.raises(HoldError) as caught:
        merge_schemas(ours, theirs)
    for part in (
        "a is int32 in the table and int64",
        "s.x is string in the table and int32",
        "S differs from s in case",
    ):
        assert part in caught.value.message


def test_conforming_fills_nested_gaps_with_null():
    """Rows of an older schema have null for what came later, and keep which of their values were null."""
    nested = pa.map_(pa.string(), pa.struct([("x", pa.int32())]))
    rows = pa.table({"m": pa.array([[("k", {"x": 1})], None, []], nested)})
    wider = pa.schema(
        [("m", pa.map_(pa.string(), pa.struct([("x", pa.int32()), ("y", pa.string())]))), ("n", pa.int32())]
    )
    table = conform_to_schema(rows, wider)
    table.validate(full=True)
    assert table.to_pylist() == [
        {"m": [("k", {"x": 1, "y": None})], "n": None},
        {"m": None, "n": None},
        {"m": [], "n": None},
    ]


def _of(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


@pytest.mark.parametrize(
    ("schemas", "promotes", "begins"),
    [
        ([], no_promotion, None),
        ([_of(a=pa.int32()), _of(a=pa.int32(), b=pa.string())], no_promotion, None),
        ([_of(a=pa.int32()), _of(a=pa.int64(), b=pa.string())], no_promotion, _of(a=pa.int64(), b=pa.string())),
        ([_of(a=pa.int64()), _of(a=pa.int32())], no_promotion, None),
        ([_of(a=pa.int32()), _of(a=pa.int64())], is_promotable, None),
        ([_of(a=pa.int64()), _of(a=pa.string())], no_promotion, None),
    ],
)
def test_a_new_table_begins_with_the_widest_type_where_it_could_not_become_wider(schemas, promotes, begins):
    """Else with the first one that comes: a table that can follow, or that holds all anyhow, grows as it did."""
    assert initial_schema(schemas, promotes) == begins
