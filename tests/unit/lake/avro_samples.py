"""Avro schemas with values, drawn together: what the lake's decoders are compared on."""

import datetime as dt
import decimal
import io
import json

import fastavro
from hypothesis import strategies as st

PRIMITIVES = {
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(max_size=6),
    "bytes": st.binary(max_size=6),
}
DAYS = st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 31))
MILLIS = st.integers(-(10**12), 10**13).map(
    lambda ms: dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)
)
LOGICAL = [
    ({"type": "int", "logicalType": "date"}, DAYS),
    ({"type": "int", "logicalType": "time-millis"}, st.times().map(lambda at: at.replace(microsecond=1000))),
    ({"type": "long", "logicalType": "time-micros"}, st.times()),
    ({"type": "long", "logicalType": "timestamp-millis"}, MILLIS),
    ({"type": "long", "logicalType": "timestamp-micros"}, MILLIS),
    ({"type": "long", "logicalType": "local-timestamp-millis"}, MILLIS.map(lambda at: at.replace(tzinfo=None))),
    ({"type": "string", "logicalType": "uuid"}, st.uuids()),
    (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
        st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: decimal.Decimal(cents).scaleb(-2)),
    ),
]


class Names:
    """Gives every named type of one schema a name of its own."""

    def __init__(self) -> None:
        self.count = 0

    def fresh(self) -> str:
        """A name that was not used before."""
        self.count += 1
        return f"N{self.count}"


@st.composite
def typed(draw, names: Names, depth: int, *, unions: bool):
    """An Avro type and a strategy of its values."""
    kinds = ["primitive", "logical", "enum", "fixed"]
    if depth:
        kinds += ["nullable", "array", "map", "record", *(["union"] if unions else [])]
    kind = draw(st.sampled_from(kinds))
    inner = typed(names, depth - 1, unions=unions)
    if kind == "primitive":
        name = draw(st.sampled_from(sorted(PRIMITIVES)))
        return name, PRIMITIVES[name]
    if kind == "logical":
        return draw(st.sampled_from(LOGICAL))
    if kind == "enum":
        return {"type": "enum", "name": names.fresh(), "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")
    if kind == "fixed":
        return {"type": "fixed", "name": names.fresh(), "size": 3}, st.binary(min_size=3, max_size=3)
    if kind == "nullable":
        schema, values = draw(inner.filter(lambda drawn: not isinstance(drawn[0], list)))
        return draw(st.sampled_from([["null", schema], [schema, "null"]])), st.none() | values
    if kind == "array":
        schema, values = draw(inner)
        return {"type": "array", "items": schema}, st.lists(values, max_size=3)
    if kind == "map":
        schema, values = draw(inner)
        return {"type": "map", "values": schema}, st.dictionaries(st.text(max_size=3), values, max_size=3)
    if kind == "record":
        return draw(record(names, depth - 1, unions=unions))
    branches = [("null", st.none()), ("string", PRIMITIVES["string"]), ("int", PRIMITIVES["int"])]
    return [name for name, _ in branches], st.one_of([values for _, values in branches])


@st.composite
def record(draw, names: Names, depth: int, *, unions: bool):
    """A record type, with the places where a null field holds nothing."""
    fields = draw(st.lists(typed(names, depth, unions=unions), min_size=1, max_size=4))
    schema = {
        "type": "record",
        "name": names.fresh(),
        "fields": [{"name": f"c{n}", "type": one} for n, (one, _) in enumerate(fields)]
        + [{"name": "z", "type": "null"}],
    }
    return schema, st.fixed_dictionaries({f"c{n}": values for n, (_, values) in enumerate(fields)} | {"z": st.none()})


@st.composite
def framed_values(draw, *, unions: bool):
    """A schema's text and some framed values of it."""
    schema, values = draw(record(Names(), 3, unions=unions))
    text = json.dumps(schema)
    return text, [framed(text, value) for value in draw(st.lists(values, min_size=1, max_size=5))]


def framed(text: str, value: object, schema_id: int = 7) -> bytes:
    """A value as Confluent frames it."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(text)), value)
    return b"\0" + schema_id.to_bytes(4, "big") + out.getvalue()
