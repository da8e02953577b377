"""Hypothesis strategies for Avro schemas with values: every type, in any nesting, names used again."""

import struct

from hypothesis import strategies as st

_LOGICAL = [
    {"type": "int", "logicalType": "date"},
    {"type": "int", "logicalType": "time-millis"},
    {"type": "long", "logicalType": "time-micros"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "timestamp-nanos"},
    {"type": "long", "logicalType": "local-timestamp-millis"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2},
    {"type": "string", "logicalType": "uuid"},
]
_VALUES = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "bytes": st.binary(max_size=12),
    "string": st.text(max_size=12),
}


class Names:
    """Fresh names, and the types that were defined so far."""

    def __init__(self):
        self.count = 0
        self.known = []

    def fresh(self):
        """A name that was not used."""
        self.count += 1
        return f"N{self.count}"


@st.composite
def schemas(draw, tags=(), depth=3):
    """A record schema as plain data; logical types among its leaves."""
    return _record(draw, Names(), tags, depth)


def _tagged(draw, shape, tags):
    drawn = draw(st.lists(st.sampled_from(tags), max_size=1)) if tags else []
    return {**shape, "confluent:tags": drawn} if drawn else shape


def _record(draw, names, tags, depth):
    name = names.fresh()
    fields = [
        _tagged(draw, {"name": f"f{n}", "type": _type(draw, names, tags, depth - 1)}, tags)
        for n in range(draw(st.integers(0, 4)))
    ]
    names.known.append(name)
    return _tagged(draw, {"type": "record", "name": name, "fields": fields}, tags)


def _type(draw, names, tags, depth, *, in_union=False):
    kinds = ["primitive", "logical", "fixed", "enum", "known"]
    if depth > 0:
        kinds += ["record", "array", "map"] + ([] if in_union else ["union", "union"])
    match draw(st.sampled_from(kinds)):
        case "logical":
            return _tagged(draw, draw(st.sampled_from(_LOGICAL)), tags)
        case "fixed":
            size = draw(st.integers(1, 5))
            name = names.fresh()
            names.known.append(name)
            return {"type": "fixed", "name": name, "size": size}
        case "enum":
            name = names.fresh()
            names.known.append(name)
            return {"type": "enum", "name": name, "symbols": ["A", "B", "C"]}
        case "known" if names.known:
            return draw(st.sampled_from(names.known))
        case "record":
            return _record(draw, names, tags, depth)
        case "array":
            return _tagged(draw, {"type": "array", "items": _type(draw, names, tags, depth - 1)}, tags)
        case "map":
            return _tagged(draw, {"type": "map", "values": _type(draw, names, tags, depth - 1)}, tags)
        case "union":
            return _union(draw, names, tags, depth)
    return draw(st.sampled_from(sorted(_VALUES)))


def _union(draw, names, tags, depth):
    branches = {}
    for _ in range(draw(st.integers(1, 4))):
        before = list(names.known)
        shape = _type(draw, names, tags, depth - 1, in_union=True)
        kind = shape if isinstance(shape, str) else shape["type"]
        place = shape["name"] if kind in ("record", "fixed", "enum") else kind
        if place in branches:
            names.known = before  # what this branch defines is not there
        else:
            branches[place] = shape
    return list(branches.values())


class Values:
    """Draws values with their bytes: this writer is our own, so that branches and blocks are drawn too."""

    def __init__(self, draw, schema):
        self.draw = draw
        self.named = {}
        self.define(schema)

    def define(self, shape):
        """Remember every named type below."""
        if isinstance(shape, list):
            for branch in shape:
                self.define(branch)
        elif isinstance(shape, dict):
            if "name" in shape:
                self.named[shape["name"]] = shape
            fields = (field["type"] for field in shape.get("fields", ()))
            for inner in [*fields, shape.get("items"), shape.get("values")]:
                self.define(inner)

    def write(self, shape):
        """Bytes of a drawn value."""
        shape = self.named.get(shape, shape) if isinstance(shape, str) else shape
        if isinstance(shape, list):
            branch = self.draw(st.integers(0, len(shape) - 1))
            return long_bytes(branch) + self.write(shape[branch])
        kind = shape if isinstance(shape, str) else shape["type"]
        match kind:
            case "record":
                return b"".join(self.write(field["type"]) for field in shape["fields"])
            case "array":
                return self.blocks(lambda: self.write(shape["items"]))
            case "map":
                return self.blocks(lambda: self.write("string") + self.write(shape["values"]))
            case "fixed":
                return self.draw(st.binary(min_size=shape["size"], max_size=shape["size"]))
            case "enum":
                return long_bytes(self.draw(st.integers(0, len(shape["symbols"]) - 1)))
        return primitive_bytes(kind, self.draw(_VALUES[kind]))

    def blocks(self, item):
        """Items in one block, as every writer of ours has them."""
        items = [item() for _ in range(self.draw(st.integers(0, 3)))]
        return (long_bytes(len(items)) + b"".join(items) if items else b"") + b"\0"


def long_bytes(number):
    """Zigzag and variable length."""
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def primitive_bytes(kind, value):
    """A primitive's Avro encoding."""
    match kind:
        case "null":
            return b""
        case "boolean":
            return bytes([value])
        case "int" | "long":
            return long_bytes(value)
        case "float":
            return struct.pack("<f", value)
        case "double":
            return struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return long_bytes(len(data)) + data
