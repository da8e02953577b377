"""Draws cases for the differential tests: schema, policy and batch, from one seed.

Every shape that Avro has, names used again and within themselves, every operator in any place, records in every
encoding that a reader must accept (blocks of any form, numbers of needless length), and the same records damaged.
"""

import json
import random
import struct
from dataclasses import dataclass, field
from datetime import date

from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.registry import Listing, SchemaOrigin, SchemaVersion, UnknownSchema
from aggregator.schema.wire import Framing, frame

TODAY = date(2026, 11, 1)
OPERATORS = {
    "DROP": "drop",
    "NULL": "nullify",
    "RED": "redact",
    "TOK": "{pseudonymize: {key: customer, domain: d}}",
    "UUID": "{pseudonymize: {key: customer, domain: d, encode: uuid}}",
    "RAW": "{pseudonymize: {key: customer, domain: d, encode: bytes}}",
    "MAIL": "{pseudonymize: {key: customer, domain: mail, normalize: email, encode: base64url}}",
    "MASK": "{mask: {keep_first: 1, keep_last: 1}}",
    "BUCKET": "{bucket: {size: 10}}",
    "ROUND": "{round: {digits: -1}}",
    "SHORT": "{truncate: {length: 2, reason: r, owner: o, expires: 2030-01-01}}",
    "MONTH": "{date_truncate: {unit: month}}",
    "SHIFT": "{date_shift: {entity: who, days: 30, key: customer}}",
    "NEAR": "{date_shift: {entity: f1.f0, days: [-9, -2], key: customer, normalize: casefold}}",
}
TAGS = tuple(OPERATORS)
_LOGICAL = (
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
)
_PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_TEXTS = (
    "",
    "jane@example.com",
    " Jane@Example.com ",
    "Żółć",
    "日本",
    "😀" * 9,
    "x" * 63,
    "x" * 64,
    "42",
    "2020-02-29",
    "1999-12-31T23:59:59Z",
    "\0",
    "ÿ" * 70,
)
_NOT_TEXT = (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"abc\xe2\x82", b"\xf0\x8f\xbf\xbf", b"\x80")
_NUMBERS = (0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63), 42)


TOPICS = ("orders", "t", "visits")


class MemoryRegistry:
    """A registry without a disk, whose schemas are those of all topics that are in TOPICS."""

    framing = Framing.CONFLUENT
    ids_end = 2**32

    def __init__(self):
        self.texts = []

    def origin(self, schema_id):
        """See the port."""
        return SchemaOrigin({f"{topic}-{part}": schema_id for topic in TOPICS for part in ("key", "value")}, (), "")

    def history(self, subject, version):
        """See the port."""
        return []

    def listing(self, _requester, _is_own, **_):
        """See the port."""
        return Listing("memory", frozenset(range(1, len(self.texts) + 1)))

    def refresh(self):
        """See the port."""

    def name(self, schema_id):
        """See the port."""
        return schema_id

    def schema(self, schema_id, **_):
        """See the port."""
        if not 0 < schema_id <= len(self.texts):
            raise UnknownSchema(schema_id, "memory")
        return self.texts[schema_id - 1]

    def register(self, subject, text):
        """See the port."""
        if text not in self.texts:
            self.texts.append(text)
        return self.texts.index(text) + 1

    register_compatible = register

    def subjects(self):
        """See the port."""
        return []

    def versions(self, subject) -> list[SchemaVersion]:
        """See the port."""
        return []


@dataclass
class Case:
    """A drawn case; the registry knows its schemas."""

    seed: int
    policy: object = None
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    batch: Batch = None


def draw(seed, records=120):
    """The case of a seed."""
    rng = random.Random(seed)
    case = Case(seed)
    schemas = [_with_dates(rng, Schemas(rng).root()) for _ in range(rng.choice((1, 1, 2)))]
    keys = Schemas(rng).root()
    case.policy = parse_policy(_policy(rng))
    writers = [Writer(rng, schema) for schema in schemas]
    ids = [case.registry.register("v", json.dumps(schema)) for schema in schemas]
    key_id, key_writer = case.registry.register("k", json.dumps(keys)), Writer(rng, keys)
    values, key_column, headers = [], [], []
    for _ in range(records):
        which = rng.randrange(len(schemas))
        values.append(_value(rng, ids[which], writers[which]))
        key_column.append(_key(rng, key_id, key_writer))
        headers.append(rng.choice((None, [], [("kept", b"1")], [("kept", None), ("lost", b"2")])))
    case.batch = Batch(key_column, values, headers)
    return case


def _with_dates(rng, schema):
    """Often with somebody in it, and dates of theirs; anywhere among the other fields."""
    if not isinstance(schema, dict) or schema["type"] != "record" or rng.random() < 0.4:
        return schema
    somebody = ("string", "long", "bytes", ["null", "string"], ["long", "null", "string"], "double", _LOGICAL[5],
                {"type": "enum", "name": "Who", "symbols": ["A", "B"]})  # fmt: skip
    at = rng.choice((*_LOGICAL[:1], *_LOGICAL[2:4], "string"))
    dates = (
        at,
        ["null", at],
        {"type": "array", "items": at},
        {"type": "map", "values": ["string", at][at != "string" :]},
    )
    fields = list(schema["fields"])
    for item in (
        {"name": "who", "type": rng.choice(somebody)},
        {"name": "at", "type": rng.choice(dates), "confluent:tags": ["SHIFT"]},
    ):
        fields.insert(rng.randint(0, len(fields)), item)
    return {**schema, "fields": fields}


def _value(rng, schema_id, writer):
    chance = rng.random()
    if chance < 0.01:
        return rng.choice((None, b"", b"\0\0\0\0", b"\1\0\0\0\1x", frame(99, b"x")))
    body = writer.value()
    if chance < 0.3:
        body = _damaged(rng, body)
    return frame(schema_id, body)


def _key(rng, schema_id, writer):
    chance = rng.random()
    if chance < 0.5:
        return None
    if chance < 0.6:
        return rng.choice((b"", b"42", "Żółć".encode(), b"\xff", b"\0\0\0\0", frame(99, b"x")))
    body = writer.value()
    return frame(schema_id, _damaged(rng, body) if chance < 0.65 else body)


def _damaged(rng, body):
    """Cut, changed, longer, or with a number in it that no record holds."""
    at = rng.randrange(len(body) + 1)
    match rng.randrange(6):
        case 0:
            return body[:at]
        case 1:
            return body + rng.randbytes(rng.randint(1, 3))
        case 2 if body:
            return body[: at - 1] + rng.randbytes(1) + body[at:] if at else rng.randbytes(1) + body[1:]
        case 3:
            return body[:at] + body[at + rng.randint(1, 4) :]
        case 4:
            return body[:at] + b"\xff" * rng.choice((3, 5, 9, 10)) + bytes([rng.choice((0, 1, 2, 0x0F, 0x10, 0x7F))])
    return body[:at] + rng.choice((*_NOT_TEXT, b"\2" * 300, *map(long_bytes, _NUMBERS))) + body[at:]


def _policy(rng):
    tags = "\n".join(f"  {tag}: {OPERATORS[tag]}" for tag in TAGS)
    default = rng.choice(("keep", "keep", "keep", "drop", "nullify", "redact"))
    key = rng.choice(("keep", "drop", OPERATORS["TOK"], OPERATORS["RAW"]))
    fields = {}
    for _ in range(rng.choice((0, 0, 1, 3))):
        steps = ".".join(rng.choice(("*", "**", "f0", "f1", "f2")) for _ in range(rng.randint(1, 3)))
        path = steps + rng.choice(("", "", "[]", ".{key}", ".{}"))
        if "**.**" not in path:
            fields[path] = rng.choice((*OPERATORS.values(), "keep", "keep", "keep"))
    lines = "".join(f'\n      "{path}": {operator}' for path, operator in fields.items())
    form = rng.choice(("", "", "", "avro", "string"))
    conditions = [_condition(rng, 2) for _ in range(rng.choice((0, 0, 0, 1, 2)))]
    dropped = "".join(f"\n      - {json.dumps(condition)}" for condition in conditions)
    return (
        f"policy: p\nversion: 1\ntags:\n{tags}\ntopics:\n  orders:\n    default: {default}\n    headers: [kept]\n"
        f"    key: {key}\n"
        + (f"    format: {form}\n" if form else "")
        + (f"    fields:{lines}\n" if lines else "")
        + (f"    drop_record:{dropped}\n" if dropped else "")
    )


def _condition(rng, depth):
    """What `drop_record` may ask for; constants that some values have."""
    kind = rng.choice(
        ("field", "field", "header", "edge", "all", "any", "not") if depth else ("field", "field", "header")
    )
    if kind == "edge":
        return {"edge": rng.choice(("eu", ["eu", "us"], "us"))}
    if kind in ("all", "any"):
        return {kind: [_condition(rng, depth - 1) for _ in range(rng.randint(1, 3))]}
    if kind == "not":
        return {"not": _condition(rng, depth - 1)}
    subject = (
        rng.choice(("kept", "lost")) if kind == "header" else rng.choice(("who", "who", "f0", "f1", "f0.f0", "f1.f1"))
    )
    question = rng.choice(
        (
            {"is_null": True},
            {"is_null": False},
            {"equals": rng.choice(("A", "42", "true", "1"))},
            {"in": ["B", "7", "1"]},
        )
    )
    return {kind: subject, **question}


class Schemas:
    """Draws one schema."""

    def __init__(self, rng):
        self.rng = rng
        self.count = 0
        self.known = []
        self.open = []
        self.chance = rng.choice((0.0, 0.1, 0.3))

    def root(self):
        """Nearly always a record."""
        return self.record(4) if self.rng.random() < 0.9 else self.type(3)

    def tagged(self, shape):
        """Perhaps with a tag."""
        if self.rng.random() < self.chance and isinstance(shape, dict):
            return {**shape, "confluent:tags": [self.rng.choice(TAGS)]}
        return shape

    def fresh(self):
        """A new name."""
        self.count += 1
        return f"N{self.count}"

    def record(self, depth):
        """A record, which its own fields may name."""
        name = self.fresh()
        self.open.append(name)
        count = self.rng.choice((0, 1, 2, 3, 3, 5))
        fields = [self.tagged({"name": f"f{number}", "type": self.type(depth - 1)}) for number in range(count)]
        self.open.remove(name)
        self.known.append(name)
        return self.tagged({"type": "record", "name": name, "fields": fields})

    def type(self, depth, *, in_union=False):
        """Any type."""
        rng = self.rng
        kinds = ["primitive", "primitive", "logical", "fixed", "enum", "known"]
        if depth > 0:
            kinds += ["record", "array", "map", "record", "array"] + ([] if in_union else ["union"] * 3 + ["again"] * 2)
        match rng.choice(kinds):
            case "logical":
                return self.tagged(dict(rng.choice(_LOGICAL)))
            case "fixed":
                return self.named({"type": "fixed", "size": rng.choice((0, 1, 2, 5, 16))})
            case "enum":
                return self.named({"type": "enum", "symbols": ["A", "B", "C"][: rng.randint(1, 3)]})
            case "known" if self.known and depth > 0:
                return rng.choice(self.known)
            case "record":
                return self.record(depth)
            case "array":
                return self.tagged({"type": "array", "items": self.type(depth - 1)})
            case "map":
                return self.tagged({"type": "map", "values": self.type(depth - 1)})
            case "union":
                return self.union(depth)
            case "again" if self.open:
                name = rng.choice(self.open)
                return rng.choice((["null", name], {"type": "array", "items": name}, {"type": "map", "values": name}))
        return rng.choice(_PRIMITIVES)

    def named(self, shape):
        """A fixed or an enum."""
        name = self.fresh()
        self.known.append(name)
        return {**shape, "name": name}

    def union(self, depth):
        """Branches of different types."""
        branches = {}
        for _ in range(self.rng.randint(1, 5)):
            before = list(self.known)
            shape = self.type(depth - 1, in_union=True)
            kind = shape if isinstance(shape, str) else shape["type"]
            place = shape.get("name", kind) if isinstance(shape, dict) else kind
            if place in branches:
                self.known = before  # what this branch defines is not there
            else:
                branches[place] = shape
        return list(branches.values())


class Writer:
    """Writes values of a schema, in any encoding that a reader must accept."""

    def __init__(self, rng, schema):
        self.rng = rng
        self.schema = schema
        self.named = {}
        self.define(schema)
        self.odd = rng.choice((0.0, 0.0, 0.2))

    def define(self, shape):
        """Remember every named type."""
        if isinstance(shape, list):
            for branch in shape:
                self.define(branch)
        elif isinstance(shape, dict):
            if "name" in shape:
                self.named[shape["name"]] = shape
            fields = (item["type"] for item in shape.get("fields", ()))
            for inner in [*fields, shape.get("items"), shape.get("values")]:
                self.define(inner)

    def value(self):
        """A value's bytes."""
        self.left = self.rng.choice((3, 10, 10, 20, 100))
        try:
            return self.write(self.schema, 0)
        except RecursionError:
            return b""

    def number(self, value):
        """A number, perhaps longer than it must be."""
        data = long_bytes(value)
        if self.odd and self.rng.random() < self.odd and len(data) < 5:
            longer = self.rng.randint(1, 5 - len(data))
            data = data[:-1] + bytes([data[-1] | 0x80]) + b"\x80" * (longer - 1) + b"\0"
        return data

    def write(self, shape, depth):
        """Bytes of a type's value."""
        rng = self.rng
        self.left -= 1
        shape = self.named.get(shape, shape) if isinstance(shape, str) else shape
        if isinstance(shape, list):
            branch = rng.randrange(len(shape)) if self.left > 0 or "null" not in shape else shape.index("null")
            return self.number(branch) + self.write(shape[branch], depth + 1)
        kind = shape if isinstance(shape, str) else shape["type"]
        match kind:
            case "record":
                return b"".join(self.write(item["type"], depth + 1) for item in shape["fields"])
            case "array":
                return self.blocks(lambda: self.write(shape["items"], depth + 1))
            case "map":
                return self.blocks(lambda: self.write("string", depth) + self.write(shape["values"], depth + 1))
            case "fixed":
                return rng.randbytes(shape["size"])
            case "enum":
                return self.number(rng.randrange(len(shape["symbols"])))
            case "null":
                return b""
            case "boolean":
                return rng.choice((b"\0", b"\1"))
            case "int" | "long":
                limit = 2**31 if kind == "int" else 2**63
                value = rng.choice((rng.choice(_NUMBERS), rng.randrange(-300, 300)))
                return self.number(value if -limit <= value < limit else 7)
            case "float" | "double":
                return struct.pack("<f" if kind == "float" else "<d", rng.choice((0.0, -0.0, 1.5, float("nan"))))
        data = rng.choice(_TEXTS).encode()
        if rng.random() < (0.5 if kind == "bytes" else 0.005):
            data = rng.choice(_NOT_TEXT)
        return self.number(len(data)) + data

    def blocks(self, item):
        """Items in one block, or in several, with sizes or without."""
        rng = self.rng
        out = b""
        for _ in range(rng.choice((0, 1, 1, 1, 2, 3)) if self.left > 0 else 0):
            items = [item() for _ in range(rng.choice((1, 1, 2, 3, 70 if self.left > 80 else 1)))]
            data = b"".join(items)
            if rng.random() < 0.2:
                wrong = rng.choice((0,) * 30 + (1, -1, 2**40, -(2**63)))
                out += self.number(-len(items)) + self.number(max(len(data) + wrong, -(2**63))) + data
            else:
                out += self.number(len(items)) + data
        return out + self.number(0)


def long_bytes(number):
    """Zigzag and variable length."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])
