"""Shapes that leak elsewhere: a canary in every leaf of something tagged, beside a field that must survive.

Each shape is a type, and its value made of a canary; the tag sits on the field `x`, or inside the type where the
shape says so.
"""

import base64
import hashlib
from typing import NamedTuple
from urllib.parse import quote

TAGS = {"confluent:tags": ["PII"]}


class Shape(NamedTuple):
    """A leaking shape: the type of `x`, its value, and whether the tag is on the field."""

    type: object
    value: object
    on_field: bool = True


def _record(name, *fields, **more):
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": n, "type": t, **extra} for n, t, extra in fields],
        **more,
    }


def _array(items, **more):
    return {"type": "array", "items": items, **more}


def _map(values, **more):
    return {"type": "map", "values": values, **more}


def _fixed(canary):
    return {"type": "fixed", "name": "F", "size": len(canary)}


def shapes(canary):
    """Name to shape."""
    person = _record("P", ("name", "string", {}), ("mail", ["null", "string"], {}))
    who = {"name": canary, "mail": canary}
    node = _record("N", ("v", "string", {}), ("next", ["null", "N"], {}), ("more", _array("N"), {}))
    chain = {"v": canary, "next": {"v": canary, "next": {"v": canary, "next": None, "more": []}, "more": []},
             "more": [{"v": canary, "next": None, "more": []}]}  # fmt: skip
    deep = _array(_map(["null", _record("D", ("l", _array(_map("string")), {}))]))
    raw = canary.encode()
    return {
        "string": Shape("string", canary),
        "bytes": Shape("bytes", raw),
        "fixed": Shape(_fixed(canary), raw),
        "optional": Shape(["null", "string"], canary),
        "optional last": Shape(["string", "null"], canary),
        "record in a tagged field": Shape(person, who),
        "optional record": Shape(["null", person], who),
        "records in a tagged array": Shape(_array(person), [who, who]),
        "records in a tagged map": Shape(_map(person), {canary: who}),
        "array of arrays": Shape(_array(_array("string")), [[canary], [], [canary]]),
        "optional items": Shape(_array(["null", "string"]), [None, canary]),
        "map keys": Shape(_map("int"), {canary: 1}),
        "map keys and values": Shape(_map("string"), {canary: canary}),
        "map of maps": Shape(_map(_map("string")), {canary: {canary: canary}}),
        "map of arrays": Shape(_map(_array("string")), {canary: [canary]}),
        "deep": Shape(deep, [{canary: {"l": [{canary: canary}]}}]),
        "recursive": Shape(node, chain),
        "optional recursive": Shape(["null", node], chain),
        "two records of one shape": Shape(
            [_record("A", ("n", "string", {})), _record("B", ("n", "string", {}))], ("corpus.B", {"n": canary})
        ),
        "many branches": Shape(["int", "string", person, _array("string")], canary),
        "many branches, record": Shape(["int", "string", person, _array("string")], ("corpus.P", who)),
        "many branches, array": Shape(["int", "string", person, _array("string")], [canary]),
        "unknown logical type": Shape({"type": "string", "logicalType": "e-mail"}, canary),
        "uuid that is none": Shape({"type": "string", "logicalType": "uuid"}, canary),
        "decimal": Shape({"type": "bytes", "logicalType": "not-decimal"}, raw),
        "enum": Shape({"type": "enum", "name": "E", "symbols": ["other", canary]}, canary),
        "optional enum": Shape(["null", {"type": "enum", "name": "E", "symbols": [canary]}], canary),
        "default": Shape("string", canary),
        "tag on the type": Shape({"type": "string", **TAGS}, canary, on_field=False),
        "tag on a record": Shape({**person, **TAGS}, who, on_field=False),
        "tag on an array": Shape(_array(person, **TAGS), [who], on_field=False),
        "tag on a map": Shape(_map("string", **TAGS), {canary: canary}, on_field=False),
        "tag on items": Shape(_array({"type": "string", **TAGS}), [canary], on_field=False),
        "tag on a branch": Shape(["null", "int", {"type": "string", **TAGS}], canary, on_field=False),
        "tag on a field inside": Shape(_record("P", ("name", "string", TAGS)), {"name": canary}, on_field=False),
        "tag on a recursive record": Shape({**node, **TAGS}, chain, on_field=False),
        "tag on a wrapped reference": Shape(_array({"type": "S", **TAGS}), [{"s": canary}], on_field=False),
        "tag deep inside": Shape(
            _map(_array(_record("Q", ("n", _map({"type": "string"}), TAGS)))),
            {"k": [{"n": {canary: canary}}]},
            on_field=False,
        ),
        "reference to a type defined elsewhere": Shape("S", {"s": canary}),
        "array of references": Shape(_array("S"), [{"s": canary}]),
    }  # fmt: skip


def schema_of(shape, canary):
    """A record with the shape in it, a canary in every text of the schema, and a field that must survive."""
    shared = _record("S", ("s", "string", {"doc": canary}))
    field = {"name": "x", "type": shape.type, "doc": canary, "example": canary, **(TAGS if shape.on_field else {})}
    if shape.type == "string":
        field["default"] = canary
    survivor = {"name": "kept", "type": "string"}
    fields = [survivor, {"name": "shared", "type": ["null", shared]}, field]
    return {"type": "record", "name": "R", "namespace": "corpus", "doc": canary, "fields": fields}


def traces(canary):
    """The canary in every encoding in which it could still be recognised."""
    raw = canary.encode()
    inner = [base64.b64encode(b"\0" * shift + raw)[4:-4] for shift in range(3)]
    digests = [getattr(hashlib, name)(raw) for name in ("md5", "sha1", "sha256")]
    plain = [raw, raw.upper(), raw[::-1], canary.encode("utf-16-le"), canary.encode("utf-16-be")]
    encoded = [raw.hex().encode(), quote(canary).encode(), *inner]
    return [*plain, *encoded, *(item.digest() for item in digests), *(item.hexdigest().encode() for item in digests)]
