"""Shapes that leak elsewhere: a canary in every leaf of something tagged, beside a field that must survive.

Each shape is a type, and its value made of a canary; the tag sits on the field `x`, or inside the type where the
shape says so.
"""

import base64
import io
import json
from typing import NamedTuple

import fastavro

from tests.canary import number, uuid_of
from tests.unit.privacy.shapes import long_bytes, primitive_bytes

TAGS = {"confluent:tags": ["PII"]}
SURVIVOR = "survivor"


class Shape(NamedTuple):
    """A leaking shape: the type of `x`, its value, whether the tag is on the field, and bytes that no writer makes."""

    type: object
    value: object
    on_field: bool = True
    wire: bytes | None = None


def _inside(shape, value):
    return Shape(shape, value, on_field=False)


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


def _fixed(size, **more):
    return {"type": "fixed", "name": "F", "size": size, **more}


def _enum(*symbols, **more):
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


def _logical(kind, name, **more):
    return {"type": kind, "logicalType": name, **more}


def shapes(canary):
    """Name to shape."""
    return {**_leaves(canary), **_containers(canary), **_recursive(canary), **_unions(canary), **_tagged(canary)}


def _leaves(canary):
    raw, int32, int64 = canary.encode(), number(canary, 32), number(canary, 64)
    position = _record("Position", ("latitude", "float", {}), ("longitude", "float", {}))
    return {
        "string": Shape("string", canary),
        "bytes": Shape("bytes", raw),
        "fixed": Shape(_fixed(len(raw)), raw),
        "long text": Shape("string", f"{'x' * 400} {canary} {'y' * 400}"),
        "text of many scripts": Shape("string", f"Żółć {canary} 日本😀"),
        "JSON in a text": Shape("string", json.dumps({"mail": canary, "others": [canary]})),
        "base64 in a text": Shape("string", base64.b64encode(raw).decode()),
        "UTF-16 in bytes": Shape("bytes", canary.encode("utf-16-le")),
        "int": Shape("int", int32),
        "long": Shape("long", int64),
        "double": Shape("double", float(int64)),
        "floats": Shape(position, {"latitude": float(int32), "longitude": float(int32)}),
        "date": Shape(_logical("int", "date"), int32),
        "time in milliseconds": Shape(_logical("int", "time-millis"), int32),
        "time in microseconds": Shape(_logical("long", "time-micros"), int64),
        "instant in milliseconds": Shape(_logical("long", "timestamp-millis"), int64),
        "instant in microseconds": Shape(_logical("long", "timestamp-micros"), int64),
        "instant in nanoseconds": Shape(_logical("long", "timestamp-nanos"), int64),
        "local instant": Shape(_logical("long", "local-timestamp-micros"), int64),
        "decimal": Shape(_logical("bytes", "decimal", precision=20, scale=2), int64.to_bytes(8, "big")),
        "decimal in a fixed": Shape(_fixed(9, logicalType="decimal", precision=20, scale=2), int64.to_bytes(9, "big")),
        "decimal that is none": Shape(_logical("bytes", "not-decimal"), raw),
        "uuid": Shape(_logical("string", "uuid"), str(uuid_of(canary))),
        "uuid that is none": Shape(_logical("string", "uuid"), canary),
        "uuid in a fixed": Shape(_fixed(16, logicalType="uuid"), uuid_of(canary).bytes),
        "duration": Shape(_fixed(12, logicalType="duration"), int64.to_bytes(8, "little") + bytes(4)),
        "unknown logical type": Shape(_logical("string", "e-mail"), canary),
        "type in a type": Shape({"type": {"type": {"type": "string"}}}, canary),
        "enum": Shape(_enum("other", canary), canary),
        "enum with a default": Shape(_enum("other", canary, default=canary, doc=canary), "other"),
        "optional": Shape(["null", "string"], canary),
        "optional last": Shape(["string", "null"], canary),
        "optional number": Shape(["null", "long"], int64),
        "optional enum": Shape(["null", _enum(canary)], canary),
    }


def _person(**more):
    return _record("P", ("name", "string", {}), ("mail", ["null", "string"], {}), **more)


def _who(canary):
    return {"name": canary, "mail": canary}


def _containers(canary):
    who, person, int64 = _who(canary), _person(), number(canary, 64)
    deep = _array(_map(["null", _record("D", ("l", _array(_map("string")), {}))]))
    nested = _record("Outer", ("middle", _record("Middle", ("inner", _person(), {})), {}))
    empty = _record("Hollow", ("nothing", _record("Nothing"), {}), ("name", "string", {}))
    entry = primitive_bytes("string", canary)
    pair, end = entry + entry, b"\0"
    return {
        "record in a tagged field": Shape(person, who),
        "optional record": Shape(["null", person], who),
        "records in records": Shape(nested, {"middle": {"inner": who}}),
        "record beside one without fields": Shape(empty, {"nothing": {}, "name": canary}),
        "records in a tagged array": Shape(_array(person), [who, who]),
        "records in a tagged map": Shape(_map(person), {canary: who}),
        "array of arrays": Shape(_array(_array("string")), [[canary], [], [canary]]),
        "array of numbers": Shape(_array("long"), [int64, 0, int64]),
        "optional items": Shape(_array(["null", "string"]), [None, canary]),
        "map keys": Shape(_map("int"), {canary: 1}),
        "map keys and values": Shape(_map("string"), {canary: canary}),
        "map of numbers": Shape(_map("long"), {"k": int64}),
        "map of maps": Shape(_map(_map("string")), {canary: {canary: canary}}),
        "map of arrays": Shape(_map(_array("string")), {canary: [canary]}),
        "map with a doubled key": Shape(_map("string"), None, wire=long_bytes(2) + pair + pair + end),
        "deep": Shape(deep, [{canary: {"l": [{canary: canary}]}}]),
        "array in blocks": Shape(
            _array("string"), None, wire=b"".join(long_bytes(n) + entry * n for n in (1, 2, 3)) + end
        ),
        "array in blocks with sizes": Shape(
            _array("string"), None, wire=(long_bytes(-2) + long_bytes(2 * len(entry)) + entry * 2) * 2 + end
        ),
        "map in blocks with sizes": Shape(
            _map("string"), None, wire=(long_bytes(-1) + long_bytes(len(pair)) + pair) * 2 + long_bytes(1) + pair + end
        ),
        "reference to a type defined elsewhere": Shape("S", {"s": canary}),
        "array of references": Shape(_array("S"), [{"s": canary}]),
        "reference by full name": Shape(
            _record("a.One", ("own", _record("b.Two", ("t", "string", {})), {}), ("again", "b.Two", {})),
            {"own": {"t": canary}, "again": {"t": canary}},
        ),
        "aliases": Shape(_record("New", ("name", "string", {"aliases": ["old"]}), aliases=["Old"]), {"name": canary}),
    }


def _node(**more):
    return _record("N", ("v", "string", {}), ("next", ["null", "N"], {}), ("more", _array("N"), {}), **more)


def _chain(canary):
    tail = {"v": canary, "next": None, "more": []}
    middle = {"v": canary, "next": tail, "more": []}
    return {"v": canary, "next": middle, "more": [tail]}


def _recursive(canary):
    link = _record("L", ("v", "string", {}), ("next", ["null", "L"], {}))
    long_chain = None
    for _ in range(40):
        long_chain = {"v": canary, "next": long_chain}
    pong = _record("Pong", ("q", "string", {}), ("ping", ["null", "Ping"], {}))
    mutual = _record("Ping", ("p", "string", {}), ("pong", ["null", pong], {}))
    rally = {"p": canary, "pong": {"q": canary, "ping": {"p": canary, "pong": {"q": canary, "ping": None}}}}
    tree = _record("Tree", ("v", "string", {}), ("kids", _map("Tree"), {}))
    leaf = {"v": canary, "kids": {}}
    tagged_link = _record("L", ("v", "string", {}), ("next", ["null", "L"], TAGS))
    return {
        "recursive": Shape(_node(), _chain(canary)),
        "optional recursive": Shape(["null", _node()], _chain(canary)),
        "recursive, forty levels": Shape(link, long_chain),
        "mutually recursive": Shape(mutual, rally),
        "recursive through a map": Shape(tree, {"v": canary, "kids": {canary: {"v": canary, "kids": {canary: leaf}}}}),
        "tag on the link of a chain": _inside(
            tagged_link, {"v": "open", "next": {"v": canary, "next": {"v": canary, "next": None}}}
        ),
    }


def _unions(canary):
    who, many = _who(canary), ["int", "string", _person(), _array("string")]
    two = [_record("A", ("n", "string", {})), _record("B", ("n", "string", {}))]
    one_tagged = [_record("A", ("n", "string", {})), _record("B", ("n", "string", {}), **TAGS)]
    return {
        "two records of one shape": Shape(two, ("corpus.B", {"n": canary})),
        "two records of one shape, one tagged": _inside(one_tagged, ("corpus.B", {"n": canary})),
        "many branches": Shape(many, canary),
        "many branches, number": Shape(many, number(canary, 32)),
        "many branches, record": Shape(many, ("corpus.P", who)),
        "many branches, array": Shape(many, [canary]),
        "text or bytes": Shape(["bytes", "string"], canary.encode()),
        "union in an array in a union": Shape(
            ["null", _array(["null", "string", _array("string")])], [canary, [canary]]
        ),
        "map in a union": Shape(["null", "string", _map("string")], {canary: canary}),
    }


def _tagged(canary):
    who = _who(canary)
    text = {"type": "string", **TAGS}
    deep = _map(_array(_record("Q", ("n", _map({"type": "string"}), TAGS))))
    again = _record("Pair", ("first", ["null", _record("T", ("t", "string", {}), **TAGS)], {}), ("second", "T", {}))
    undeclared = {"confluent:tags": ["NOBODY_DECLARED"]}
    return {
        "default": Shape("string", canary),
        "default inside": Shape(_record("P", ("name", "string", {"default": canary, "doc": canary})), {"name": canary}),
        "tag on the type": _inside(text, canary),
        "tag on a record": _inside(_person(**TAGS), who),
        "tag on an array": _inside(_array(_person(), **TAGS), [who]),
        "tag on a map": _inside(_map("string", **TAGS), {canary: canary}),
        "tag on an enum": _inside(_enum(canary, **TAGS), canary),
        "tag on a fixed": _inside(_fixed(len(canary), **TAGS), canary.encode()),
        "tag on items": _inside(_array(text), [canary]),
        "tag on values": _inside(_map(text), {"k": canary}),
        "tag on a branch": _inside(["null", "int", text], canary),
        "tag on a field inside": _inside(_record("P", ("name", "string", TAGS)), {"name": canary}),
        "tag on a recursive record": _inside(_node(**TAGS), _chain(canary)),
        "tag on a wrapped reference": _inside(_array({"type": "S", **TAGS}), [{"s": canary}]),
        "tag on a type that is named again": _inside(again, {"first": {"t": canary}, "second": {"t": canary}}),
        "tag deep inside": _inside(deep, {"k": [{"n": {canary: canary}}]}),
        "tag that nobody declared": _inside(_record("P", ("name", "string", undeclared)), {"name": canary}),
    }


class PlainShape(NamedTuple):
    """A value without parts: how its topic is declared, and its bytes."""

    form: str
    value: bytes


def plain_shapes(canary):
    """Name to a value of text or bytes: all of it is the canary's, in whatever it is wrapped."""
    raw = canary.encode()
    texts = {
        "text": canary,
        "empty lines around it": f"\n\n{canary}\r\n",
        "line of a log": f'2026-11-01T00:00:00Z INFO user="{canary}" GET /v1/{canary}?q={canary} 200',
        "text of many scripts": f"Żółć {canary} 日本😀",
        "JSON": json.dumps({"mail": canary, canary: [canary]}),
        "XML": f"<order who='{canary}'><note>{canary}</note></order>",
        "CSV": f'1,"{canary}",,{canary}\n2,{canary}',
        "base64": base64.b64encode(raw).decode(),
        "long text": f"{'x' * 40_000} {canary} {'y' * 40_000}",
        "zero bytes": f"\0\0\0\0\1{canary}",
        "byte order mark": f"\ufeff{canary}",
        "controls": f"\x1b[2J{canary}\x07",
    }
    blobs = {
        "bytes": raw,
        "no UTF-8": b"\xff\xfe" + raw + b"\xff",
        "UTF-16": canary.encode("utf-16-le"),
        "wire format": b"\0\0\0\0\1" + long_bytes(len(raw)) + raw,
        "Protobuf": b"\x0a" + bytes([len(raw)]) + raw,
        "MessagePack": b"\x81\xa4mail" + bytes([0xA0 | len(raw)]) + raw,
        "a file": b"PK\3\4" + bytes(26) + raw + bytes(100),
    }
    return {
        **{f"text: {name}": PlainShape("text", text.encode()) for name, text in texts.items()},
        **{f"bytes: {name}": PlainShape("bytes", blob) for name, blob in blobs.items()},
    }


def schema_of(shape, canary, name="R", field="x"):
    """A record with the shape in it, a canary in every text of the schema, and a field that must survive."""
    shared = _record("S", ("s", "string", {"doc": canary}))
    tagged = {"name": field, "type": shape.type, "doc": canary, "example": canary, **(TAGS if shape.on_field else {})}
    if shape.type == "string":
        tagged["default"] = canary
    fields = [{"name": "kept", "type": "string"}, {"name": "shared", "type": ["null", shared]}, tagged]
    return {"type": "record", "name": name, "namespace": "corpus", "doc": canary, "fields": fields}


def body_of(shape, canary, field="x", *, shared=True):
    """The Avro bytes of a record of that schema; `shared` says whether the type beside the shape holds a canary too."""
    schema = schema_of(shape, canary, field=field)
    record = {"kept": SURVIVOR, "shared": {"s": canary} if shared else None, field: shape.value}
    if shape.wire is not None:
        del schema["fields"][2], record[field]
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(unwrapped(json.loads(json.dumps(schema)))), record)
    return out.getvalue() + (shape.wire or b"")


def unwrapped(shape):
    """Without types in types, `{"type": {"type": …}}` and `{"type": "Name"}`, which fastavro does not read."""
    if isinstance(shape, list):
        return [unwrapped(item) for item in shape]
    if not isinstance(shape, dict):
        return shape
    inner = shape.get("type")
    is_wrapper = isinstance(inner, dict) or (isinstance(inner, str) and inner not in _KINDS)
    if "name" not in shape and is_wrapper:
        return unwrapped(inner)
    return {key: unwrapped(value) for key, value in shape.items()}


_KINDS = frozenset(
    "null boolean int long float double bytes string record error enum fixed array map".split()  # noqa: SIM905 - words
)
