"""Plain JSON to Avro and back: both ways of writing it, logical values, and refusals by path."""

import json

import pytest

from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.plain_json import GONE, NEW, Misfit, compare_leaves, decoded, encoded, leaves
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
        ({"who": {"x": "canary"}}, "who.{key}: is no array"),
        ({"who": {"x": ["a", 1]}}, "who.{key}[1]: is no string"),
        ({"one": {"z": "canary"}}, "one: fits no branch"),
        ({"surprise": "canary"}, "the value: has a field that the schema does not have"),
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
    assert list(compare_leaves({"a": 1, "b": {}}, {"a": 2, "c": None})) == [
        ("a", "1", "2"),
        ("b", "{}", GONE),
        ("c", NEW, "null"),
    ]


def test_a_registry_in_memory_keeps_the_registries_invariant():
    """The same text has one id in every subject; an id that was not given is unknown."""
    registry = MemoryRegistry()
    assert [
        registry.register_compatible("a-value", "x"),
        registry.register("b-value", "x"),
        registry.register_compatible("a-value", "y"),
    ] == [
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


LINKED = json.dumps({"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]})
WIDE = json.dumps(
    {"type": "array", "items": {"type": "record", "name": "N", "fields": [{"name": "n", "type": "null"}]}}
)
# Items of null, more than memory holds, in ten bytes: a decoder without bounds makes them.
MANY = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f\x00"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (LINKED, b"\x02" * 200_000 + b"\x00"),
        (LINKED.replace('["null", "R"]', '{"type": "array", "items": "R"}'), b"\x02" * 200_000 + bytes(200_000)),
        (LINKED.replace('["null", "R"]', '{"type": "map", "values": "R"}'), b"\x02\x00" * 200_000 + bytes(200_000)),
        ('{"type": "array", "items": "null"}', MANY),
        (WIDE, MANY),
        ('{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}', MANY),
        ('{"type": "array", "items": "null"}', b"\x01\x00" + MANY),
        ('["null", "int"]', b"\x01\x00"),
        ('"bytes"', MANY),
        ('"string"', b"\x01"),
        ('"long"', b"\xff" * 20 + b"\x00"),
        ('"double"', b"\x00" * 7),
    ],
)
def test_a_hostile_body_is_refused(text, body):
    """Whoever shows a record reads bytes that anybody may have written: nesting, counts and sizes have bounds."""
    with pytest.raises(ValueError, match=r"nests too deep|too many values|is cut|no branch"):
        decoded(text, body)


def test_what_the_strip_delivers_can_be_shown():
    """The bounds are those of the strip: as many values without bytes, in blocks with their size and without."""
    assert decoded('{"type": "array", "items": "null"}', b"\x80\x20\x00") == [None] * 2048
    blocks = b"\x02\x02\x03\x04\x04\x06\x00"
    assert decoded('{"type": "array", "items": "int"}', blocks) == [1, 2, 3]
    assert decoded('{"type": "map", "values": "int"}', b"\x02\x02a\x02\x00") == {"a": 1}
    assert decoded(LINKED, b"\x02" * 60 + b"\x00")["next"]["next"]


def test_objects_that_only_tag_a_type_are_read():
    """A wrapper around a type, a union or a name, as the strip takes it, is no reason to show nothing."""
    tagged = {"confluent:tags": ["PII"]}
    text = json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "a", "type": {"type": {"type": "string"}, **tagged}},
        {"name": "b", "type": {"type": ["null", {"type": {"type": "array", "items": {"type": "int"}}}], **tagged}},
        {"name": "c", "type": {"type": {"type": "record", "name": "S", "fields": [{"name": "x", "type": "int"}]}}},
        {"name": "d", "type": {"type": "S", **tagged}},
    ]})  # fmt: skip
    value = {"a": "x", "b": [1], "c": {"x": 2}, "d": {"x": 3}}
    assert decoded(text, encoded(text, value)) == value


def test_a_schema_that_no_decoder_reads_is_a_value_error():
    """What is no schema, or one that nests without end, is told like a body that does not fit."""
    for text in ('{"type": "array"}', '{"type": {"type": 1}}', json.dumps({"type": "map", "values": "Nobody"})):
        with pytest.raises(ValueError, match="reads no such schema"):
            decoded(text, b"\x00")


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", 2**70),
        ("string", "\ud800"),
        ({"type": "map", "values": "string"}, {"k": "\ud800"}),
    ],
)
def test_what_no_body_holds_is_a_misfit(kind, value):
    """Numbers beyond their bits, halves of characters: told as all others are."""
    with pytest.raises(Misfit):
        encoded(json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}), {"a": value})
