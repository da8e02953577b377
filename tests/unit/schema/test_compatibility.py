"""Avro's schema resolution as a yes or no, against the reference's reader, and the diff that a refusal shows."""

import io
import itertools
import json

import fastavro
import pytest

from aggregator.schema.avro import parse
from aggregator.schema.compatibility import breaking, differences, incompatibility, may_follow, reads, standing


def record(*fields, name="R", **more):
    """Fields as dicts."""
    return {"type": "record", "name": name, "fields": list(fields), **more}


def item(name, shape, **more):
    """One field."""
    return {"name": name, "type": shape, **more}


def enum(*symbols, **more):
    """An enum E."""
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def decimal(precision, scale):
    """A decimal of bytes."""
    return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}


NODE = record(item("next", ["null", "R"]))
READABLE = [
    ("long", "int"),
    ("double", "long"),
    ("float", "int"),
    ("bytes", "string"),
    ("string", "bytes"),
    (["null", "string"], "string"),
    (["null", "long"], ["int"]),
    ("long", ["int"]),
    (record(), record(item("x", "int"))),
    (record(item("x", "int", default=0)), record()),
    (record(item("b", "int", aliases=["a"])), record(item("a", "int"))),
    (record(name="S", aliases=["R"]), record()),
    (record(namespace="n"), record(namespace="m")),
    (enum("A", "B"), enum("A")),
    (enum("A", default="A"), enum("A", "B")),
    ({"type": "array", "items": "long"}, {"type": "array", "items": "int"}),
    ({"type": "map", "values": ["null", "int"]}, {"type": "map", "values": "int"}),
    (decimal(4, 2), decimal(4, 2)),
    ({"type": "long", "logicalType": "timestamp-micros"}, "long"),
    (NODE, NODE),
]
UNREADABLE = [
    ("int", "long"),
    ("float", "double"),
    ("string", "long"),
    ("string", ["null", "string"]),
    (["null", "string"], ["null", "long"]),
    (record(item("x", "int")), record()),
    (record(item("x", "int")), record(item("x", "long"))),
    (record(name="S"), record()),
    (enum("A"), enum("A", "B")),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "F", "size": 3}),
    ({"type": "fixed", "name": "F", "size": 2}, {"type": "fixed", "name": "G", "size": 2}),
    ({"type": "array", "items": "int"}, {"type": "map", "values": "int"}),
    (decimal(4, 2), decimal(4, 1)),
    (record(item("next", ["null", "R"]), item("x", "int")), NODE),
    (  # what was read only on the word of a pair that fell later falls too
        record(item("a", [record(item("up", "R"), name="A"), "null"]), item("z", "long")),
        record(item("a", [record(item("up", "R"), name="A"), "null"]), item("z", "string")),
    ),
]


def judged(reader, writer):
    """The answer for two shapes."""
    return reads(parse(json.dumps(reader)), parse(json.dumps(writer)))


@pytest.mark.parametrize(("reader", "writer"), READABLE, ids=json.dumps)
def test_what_avro_resolves_is_readable(reader, writer):
    """Promotions, unions, defaults, aliases, added symbols: every rule of the specification."""
    assert judged(reader, writer)


@pytest.mark.parametrize(("reader", "writer"), UNREADABLE, ids=json.dumps)
def test_what_avro_does_not_resolve_is_not(reader, writer):
    """Narrowing, lost branches, fields without a default, other names and sizes."""
    assert not judged(reader, writer)


SHAPES = ["int", "long", "double", "string", ["null", "int"], ["null", "string"], ["string", "long"], enum("A")]
SAMPLES = {"int": 1, "long": 2, "double": 0.5, "string": "a", "null": None}


def _values(shape):
    for branch in shape if isinstance(shape, list) else [shape]:
        yield "A" if isinstance(branch, dict) else SAMPLES[branch]


@pytest.mark.parametrize(("reader", "writer"), list(itertools.product(SHAPES, SHAPES)), ids=json.dumps)
def test_the_judgement_agrees_with_a_reader(reader, writer):
    """An independent reader reads every sample exactly where the judgement says so."""
    wrapped = [record(item("x", shape)) for shape in (reader, writer)]
    readable = True
    for value in _values(writer):
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(wrapped[1]), {"x": value})
        body.seek(0)
        try:
            fastavro.schemaless_reader(body, fastavro.parse_schema(wrapped[1]), fastavro.parse_schema(wrapped[0]))
        except (fastavro.read.SchemaResolutionError, TypeError, ValueError):
            readable = False
    assert judged(*wrapped) == readable


def test_the_diff_names_paths_and_types_only():
    """What left, came and changed, at any depth; defaults and symbols may be personal and are not shown."""
    old = record(
        item("a", "int"),
        item("b", record(item("c", "string"), item("d", enum("JANE")), name="B")),
        item("e", {"type": "array", "items": {"type": "map", "values": record(item("f", "int"), name="F")}}),
    )
    new = record(
        item("a", ["null", "int"], default=None),
        item("b", record(item("d", enum("JANE", "JOHN")), item("g", "string", default="jane"), name="B")),
        item("e", {"type": "array", "items": {"type": "map", "values": record(item("f", "long"), name="F")}}),
        item("h", {"type": "long", "logicalType": "timestamp-micros"}),
    )
    lines = differences(parse(json.dumps(old)), parse(json.dumps(new)))
    assert lines == [
        "~ a: int -> null | int",
        "- b.c: string",
        "~ b.d: enum E of 1 symbols -> enum E of 2 symbols",
        "+ b.g: string",
        "~ e[]{}.f: int -> long",
        "+ h: long (timestamp-micros), without a default",
    ]
    assert differences(parse(json.dumps(NODE)), parse(json.dumps(NODE))) == []


def test_a_long_diff_is_cut():
    """A page is enough."""
    many = record(*(item(f"f{number}", "int") for number in range(50)))
    lines = differences(parse(json.dumps(record())), parse(json.dumps(many)))
    assert len(lines) == 21
    assert lines[-1] == "and 30 more"


def test_under_one_policy_the_order_of_versions_is_an_accident():
    """A writer's older schema may come second; the same difference made by a policy change is refused."""
    older, newer = (
        json.dumps(record(*fields) | {"hub.policy": "p/1"})
        for fields in ([item("x", "int"), item("y", "int")], [item("x", "int")])
    )
    assert may_follow(newer, older)
    assert may_follow(older, newer)
    assert not may_follow(older.replace("p/1", "p/2"), newer)


def test_a_schema_that_stands_there_may_come_again_under_a_later_policy():
    """Somebody gave the policy another version for the sake of another topic; nothing here is different."""
    narrow, wide = (json.dumps(record(item("x", shape)) | {"hub.policy": "p/1"}) for shape in ("int", "long"))
    versions = [(2, wide), (1, narrow)]
    again = narrow.replace("p/1", "p/5")
    assert not may_follow(again, wide)
    assert standing(again, wide, [wide, narrow]) == narrow
    assert incompatibility("eu.orders-value", again, versions) is None
    assert "~ x: long -> int" in str(incompatibility("eu.orders-value", again, versions[:1]))
    later = wide.replace("p/1", "p/5")
    assert standing(again.replace("p/5", "p/6"), later, [later, wide, narrow, "{"]) == narrow, "and once more"


def test_a_field_that_comes_back_is_no_such_schema():
    """The policy dropped it meanwhile: readers of the newest version have records that lack it."""
    whole = json.dumps(record(item("x", "int"), item("cabin", "string")) | {"hub.policy": "p/1"})
    without = json.dumps(record(item("x", "int")) | {"hub.policy": "p/2"})
    back = whole.replace("p/1", "p/3")
    assert standing(back, without, [without, whole]) is None
    assert "+ cabin: string, without a default" in str(incompatibility("a-value", back, [(2, without), (1, whole)]))


def test_a_stripped_field_is_not_one_that_is_kept():
    """What was done to it is part of what stands there."""
    kept, redacted = (
        json.dumps(record(item("x", "string", **more)) | {"hub.policy": "p/1"})
        for more in ({}, {"hub.strip": "redact"})
    )
    assert standing(redacted, kept, [kept]) is None


def test_a_refusal_tells_whose_change_it_was():
    """Under one version of a policy it was the writers, or somebody who left the version as it was."""
    old, new = (json.dumps(record(item("x", shape)) | {"hub.policy": "p/1"}) for shape in ("long", "string"))
    writers = breaking("eu.orders-value", 1, new, old)
    assert "~ x: long -> string" in writers.message
    assert writers.hint.startswith(
        "the writers changed this (or the policy did, whose version was left as it was: undo that): drop the field, or"
    )
    assert 'central: "{edge}.{topic}.v2", and lake: "{topic}_v2"' in writers.hint
    again = breaking("eu.orders.v2-value", 1, new, old).hint
    assert 'central: "{edge}.{topic}.v3", and lake: "{topic}_v3"' in again, "the second time it is the third one"
    assert '"{edge}_{topic}_v3" if it did so at one edge' in again
    policy = breaking("eu.orders-value", 1, new.replace("p/1", "p/2"), old)
    assert policy.hint.startswith("undo that part of the policy, drop the field, or begin a new generation")
