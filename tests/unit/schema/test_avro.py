"""Reading schema texts into graphs."""

import json

import pytest

from aggregator.errors import DeadLetterError, Reason
from aggregator.schema.avro import Kind, Logical, Missing, parse


def _parse(shape):
    return parse(json.dumps(shape))


def test_recursion_is_a_cycle():
    """A record that names itself points at its own node."""
    schema = _parse(
        {"type": "record", "name": "n.Node", "fields": [{"name": "next", "type": ["null", "Node"], "default": None}]}
    )
    union = schema.nodes[schema.nodes[schema.root].fields[0].node]
    assert union.children[1] == schema.root
    assert schema.nodes[schema.root].fields[0].default is None


def test_names_resolve_in_their_namespace():
    """A short name means the enclosing namespace first, then none; a dotted one is whole."""
    schema = _parse(
        {"type": "record", "name": "R", "namespace": "a", "fields": [
            {"name": "x", "type": {"type": "fixed", "name": "b.F", "size": 2}},
            {"name": "y", "type": "b.F"},
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A"], "default": "A"}},
            {"name": "z", "type": "E"},
        ]}
    )  # fmt: skip
    fields = schema.nodes[schema.root].fields
    assert schema.nodes[schema.root].name == "a.R"
    assert fields[0].node == fields[1].node
    assert fields[2].node == fields[3].node
    assert schema.nodes[fields[3].node].name == "a.E"
    assert fields[0].default is Missing.MISSING


def test_tags_of_field_type_and_reference():
    """Tags stand on fields, on types of every kind, and on a reference without touching other uses of the type."""
    schema = _parse(
        {"type": "record", "name": "R", "confluent:tags": ["ROOT"], "fields": [
            {"name": "a", "confluent:tags": ["F"], "type": {"type": "string", "confluent:tags": ["T"]}},
            {"name": "b", "type": {"type": "array", "items": "string", "confluent:tags": ["ARRAY"]}},
            {"name": "c", "type": {"type": {"type": "map", "values": "long"}, "confluent:tags": ["MAP"]}},
            {"name": "d", "type": {"type": "R", "confluent:tags": ["AGAIN"]}},
        ]}
    )  # fmt: skip
    root = schema.nodes[schema.root]
    assert root.tags == {"ROOT"}
    assert root.fields[0].tags == {"F"}
    tags = [schema.nodes[field.node].tags for field in root.fields]
    assert tags == [{"T"}, {"ARRAY"}, {"MAP"}, {"ROOT", "AGAIN"}]
    again = schema.nodes[root.fields[3].node]
    assert again.fields == root.fields, "a tagged reference to an open record has its fields"


def test_logical_types_are_avros_own():
    """Unknown logical types and text beside them are not taken in."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2, "doc": "x"}
    assert _parse(decimal).nodes[0].logical == Logical("decimal", 4, 2)
    assert _parse({"type": "string", "logicalType": "jane@example.com"}).nodes[0].logical is None


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"precision": 0, "scale": 0},
        {"precision": -3, "scale": -5},
        {"precision": 4, "scale": -1},
        {"precision": 4, "scale": 5},
        {"precision": 2, "scale": -(10**9)},
        {"precision": True, "scale": 1},
        {"precision": 4, "scale": False},
        {"precision": 4.0},
        {"precision": 4, "type": "string"},
        {"precision": 5, "type": "fixed", "name": "F", "size": 2},
        {"precision": 1, "type": "fixed", "name": "F", "size": 0},
    ],
)
def test_an_invalid_decimal_is_bytes(more):
    """As the specification says of an invalid logical type; some readers take no schema that has one."""
    assert _parse({"type": "bytes", "logicalType": "decimal", **more}).nodes[0].logical is None


def test_a_fixed_decimal_has_as_many_digits_as_it_holds():
    """Two bytes hold four digits, whatever they are."""
    fixed = {"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 4, "scale": 4}
    assert _parse(fixed).nodes[0].logical == Logical("decimal", 4, 4)


@pytest.mark.parametrize(
    "shape",
    [
        {"type": "object", "properties": {}},
        {"type": "record", "name": "bad name", "fields": []},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [{"name": "x"}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "Unknown"}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}, {"name": "x", "type": "int"}]},
        {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "confluent:tags": "PII"}]},
        {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": 2**40},
        {"type": "array"},
        [],
        ["string", "string"],
        ["string", ["null", "int"]],
        7,
        None,
    ],
)
def test_bad_schemas_are_refused(shape):
    """SCHEMA_REFUSED with a sentence; JSON Schema too."""
    with pytest.raises(DeadLetterError) as caught:
        _parse(shape)
    assert caught.value.reason is Reason.SCHEMA_REFUSED


@pytest.mark.parametrize(
    "text", ["", "{", "syntax = 'proto3';", "[" * 100_000, '{"type":' * 5000 + '"int"' + "}" * 5000]
)
def test_hostile_texts_are_refused(text):
    """Nesting beyond the limit, and what is no JSON."""
    with pytest.raises(DeadLetterError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"type": "object", "properties": {"x": {"type": "string"}}}', "JSON Schema"),
        ('{"$schema": "http://json-schema.org/draft-07/schema#", "type": "string"}', "JSON Schema"),
        ('\nsyntax = "proto3";\nmessage Order { int64 id = 1; }', "Protobuf"),
    ],
)
def test_other_kinds_of_schema_are_refused_by_name(text, name):
    """A folder does not say of what kind its schemas are; a registry does, and is asked before."""
    with pytest.raises(DeadLetterError, match=f"it is a {name}"):
        parse(text)


def test_kinds_are_avros():
    """Every primitive is read by name and by object."""
    for kind in ("null", "boolean", "int", "long", "float", "double", "bytes", "string"):
        assert _parse(kind).nodes[0].kind is Kind(kind) is _parse({"type": kind}).nodes[0].kind
