"""Plain JSON to Avro and back: both ways of writing it, logical values, and refusals by path."""

import json

import pytest

from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.plain_json import GONE, NEW, Misfit, beside, decoded, encoded, leaves
from aggregator.schema.registry import UnknownSchema

SCHEMA = json.dumps({"type": "record", "name": "R", "namespace": "n", "fields": [
    {"name": "id", "type": "long"},
    {"name": "note", "type": ["null", "string", "long"], "default": None},
    {"name": "on", "type": {"type": "int", "logicalType": "date"}, "default": 0},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}, "default": 0},
    {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}, "default": 0},
    {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, "default": "\0"},
    {"name": "raw", "type": "bytes", "default": ""},
    {"name": "two", "type": {"type": "fixed", "name": "Two", "size": 2}, "default": "ab"},
    {"name": "ok", "type": "boolean", "default": False},
    {"name": "share", "type": "double", "default": 0},
    {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["a", "b"]}, "default": "a"},
    {"name": "who", "type": {"type": "map", "values": {"type": "array", "items": "string"}}, "default": {}},
    {"name": "one", "type": ["null",
        {"type": "record", "name": "A", "fields": [{"name": "x", "type": "int"}]},
        {"type": "record", "name": "B", "fields": [{"name": "y", "type": "int"}]}], "default": None},
]})  # fmt: skip
FULL = {
    "id": 7,
    "note": "hello",
    "on": "1976-04-19",
    "at": "2012-10-09 22:59:06.000001+00:00",
    "time": "22:59:06",
    "price": "-232.66",
    "raw": "\xff\x00",
    "two": "xy",
    "ok": True,
    "share": 0.5,
    "kind": "b",
    "who": {"x": ["1", "2"]},
    "one": {"y": 3},
}


def test_what_is_decoded_can_be_encoded_again():
    """Plain values survive the way to bytes and back: ISO times, decimals, bytes as Latin-1, records in unions."""
    body = encoded(SCHEMA, FULL)
    assert decoded(SCHEMA, body) == FULL
    assert encoded(SCHEMA, decoded(SCHEMA, body)) == body


def test_avros_own_json_is_read_too():
    """A branch may be named, short or in full, numbers may be text, and what is left out has its default."""
    avro = {"id": "7", "note": {"long": 5}, "one": {"n.A": {"x": 1}}, "raw": "base64:/wA=", "ok": "true"}
    read = decoded(SCHEMA, encoded(SCHEMA, avro))
    assert (read["id"], read["note"], read["one"], read["raw"], read["ok"]) == (7, 5, {"x": 1}, "\xff\x00", True)
    assert (read["on"], read["price"]) == ("1970-01-01", "0.00")


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"id": "canary"}, "id: is no long"),
        ({"id": None}, "id: is no long"),
        ({"ok": "canary"}, "ok: is no boolean"),
        ({"kind": "canary"}, "kind: is no enum"),
        ({"two": "canary"}, "two: is no fixed"),
        ({"on": "canary"}, "on: is no date"),
        ({"price": "1.001"}, "price: is no decimal"),
        ({"share": True}, "share: is no double"),
        ({"who": {"x": "canary"}}, "who.x: is no array"),
        ({"who": {"x": ["a", 1]}}, "who.x[1]: is no string"),
        ({"one": {"z": "canary"}}, "one: fits no branch"),
        ({"surprise": "canary"}, "the value: the schema has no field surprise"),
    ],
)
def test_a_misfit_is_told_by_its_path_and_never_by_its_value(change, told):
    """Every kind of value that does not fit is refused, in words that hold nothing of it."""
    with pytest.raises(Misfit) as refused:
        encoded(SCHEMA, FULL | change)
    assert str(refused.value) == told


def test_a_missing_field_is_refused():
    """A field without a default must be there."""
    with pytest.raises(Misfit, match="id: is missing"):
        encoded(SCHEMA, {})


def test_two_sides_are_put_beside_each_other():
    """Every leaf of either side has its line, empty containers included."""
    assert dict(leaves({"a": {"b": []}, "c": [1]})) == {"a.b": [], "c[0]": 1}
    assert list(beside({"a": 1, "b": {}}, {"a": 2, "c": None})) == [
        ("a", "1", "2"),
        ("b", "{}", GONE),
        ("c", NEW, "null"),
    ]


def test_a_registry_in_memory_keeps_the_registries_invariant():
    """The same text has one id in every subject; an id that was not given is unknown."""
    registry = MemoryRegistry()
    assert [registry.admit("a-value", "x"), registry.register("b-value", "x"), registry.admit("a-value", "y")] == [
        1,
        1,
        2,
    ]
    assert [(one.version, one.schema_id, one.text) for one in registry.versions("a-value")] == [
        (1, 1, "x"),
        (2, 2, "y"),
    ]
    assert registry.subjects() == ["a-value", "b-value"]
    for unknown in (0, 3):
        with pytest.raises(UnknownSchema):
            registry.schema(unknown)
