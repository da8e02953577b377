"""Whole batches through both implementations, with real registries."""

import json
import shutil
from datetime import date

import fastavro
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from aggregator.errors import ConfigError, HoldError, Reason, RetryError
from aggregator.privacy.batch.strip import Batch, Rejection
from aggregator.schema.wire import frame, split
from tests.unit.privacy.shapes import Values, long_bytes, schemas

pytestmark = pytest.mark.slow

KEEP_ALL = "policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n"
TOKENS = """
policy: p
version: 1
tags:
  DROP: drop
  NULL: nullify
  RED: redact
  TOK: {pseudonymize: {key: customer, domain: d}}
  UUID: {pseudonymize: {key: customer, domain: d, encode: uuid}}
  RAW: {pseudonymize: {key: customer, domain: d, encode: bytes}}
topics: {orders: {default: keep}}
"""
TAGS = ["DROP", "NULL", "RED", "TOK", "UUID", "RAW"]
# Shrinking a schema takes minutes; the failing one is printed anyway.
ONE_LAB = settings(
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _record(*fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": shape} for name, shape in fields]}


def _values(lab, schema, bodies):
    schema_id = lab.edge.register("orders-value", json.dumps(schema))
    return [frame(schema_id, body) for body in bodies]


def _batch(values):
    return Batch([None] * len(values), values, [None] * len(values))


@ONE_LAB
@given(st.data())
def test_what_is_kept_is_kept_to_the_bit(both, data):
    """With everything kept the bytes are the same: union branches, equal map keys, NaNs, every logical type."""
    both.forget()
    schema = data.draw(schemas())
    values = _values(both, schema, [Values(data.draw, schema).write(schema)])
    out = both.topic(KEEP_ALL).strip(_batch(values))
    assert out.rejected == {}
    assert split(out.values[0])[1] == split(values[0])[1]


@ONE_LAB
@given(st.data())
def test_every_output_is_a_value_of_the_derived_schema(both, data):
    """Any schema, any tags, any values: a stock reader reads what comes out, to its last byte."""
    both.forget()
    schema = data.draw(schemas(TAGS))
    values = _values(both, schema, [Values(data.draw, schema).write(schema) for _ in range(3)])
    out = both.topic(TOKENS).strip(_batch(values))
    assert out.rejected == {}
    assert [both.decoded(value, logical=False) for value in out.values]


@ONE_LAB
@given(st.data())
def test_conservation(both, data):
    """Whatever the bytes: as many out as in, each delivered or rejected with a reason, and the same twice."""
    both.forget()
    schema = data.draw(schemas(TAGS))
    good = _values(both, schema, [Values(data.draw, schema).write(schema)])
    hostile = data.draw(st.lists(st.one_of(st.none(), st.binary(max_size=30), st.sampled_from(good)), max_size=6))
    hostile += [good[0][:5] + tail for tail in data.draw(st.lists(st.binary(max_size=20), max_size=4))]
    strip = both.topic(TOKENS)
    out = strip.strip(_batch(hostile))
    assert len(out.values) == len(out.keys) == len(out.headers) == len(hostile)
    for index, value in enumerate(hostile):
        assert (out.values[index] is None) == (value is None or index in out.rejected)
    assert strip.strip(_batch(hostile)) == out


def test_union_branches_are_never_guessed(both):
    """Two record branches of one shape, an int that is written as long: the wire decides."""
    schema = _record(
        ("u", [
            {"type": "record", "name": "Cat", "fields": [{"name": "n", "type": "string"}]},
            {"type": "record", "name": "Dog", "fields": [{"name": "n", "type": "string"}]},
        ]),
        ("n", ["int", "long", "float", "double"]),
    )  # fmt: skip
    bodies = [long_bytes(u) + b"\2x" + long_bytes(n) + (b"\2" if n < 2 else bytes(4 * (n - 1)))
              for u in (0, 1) for n in range(4)]  # fmt: skip
    policy = "policy: p\nversion: 1\ntopics: {orders: {fields: {u: redact, n: keep}}}\n"
    out = both.topic(policy).strip(_batch(_values(both, schema, bodies)))
    assert [split(value)[1] for value in out.values] == [
        body.replace(b"\2x", long_bytes(10) + b"[REDACTED]") for body in bodies
    ]


def test_blocks_of_any_form_become_one(both):
    """Several blocks, and blocks with sizes, carry the same items; so does the output."""
    schema = _record(("a", {"type": "array", "items": "int"}), ("m", {"type": "map", "values": "int"}))
    array = long_bytes(1) + b"\2" + long_bytes(-2) + long_bytes(2) + b"\4\6" + b"\0"
    pairs = long_bytes(-1) + long_bytes(3) + b"\2k\2" + long_bytes(1) + b"\2k\4" + b"\0"
    out = both.topic(KEEP_ALL).strip(_batch(_values(both, schema, [array + pairs])))
    assert split(out.values[0])[1] == long_bytes(3) + b"\2\4\6\0" + long_bytes(2) + b"\2k\2\2k\4\0"


LOGICAL = [
    ({"type": "int", "logicalType": "date"}, long_bytes(-(2**31))),
    ({"type": "int", "logicalType": "time-millis"}, long_bytes(2**31 - 1)),
    *(({"type": "long", "logicalType": name}, long_bytes(-(2**63))) for name in (
        "time-micros", "timestamp-millis", "timestamp-micros", "timestamp-nanos",
        "local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos")),
    ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, b"\x06\x00\x00\x01"),
    ({"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 4, "scale": 2}, b"\xff\x00\x01"),
    ({"type": "string", "logicalType": "uuid"}, long_bytes(5) + b"hello"),
    ({"type": "fixed", "name": "U", "size": 16, "logicalType": "uuid"}, b"0123456789abcdef"),
    ({"type": "fixed", "name": "T", "size": 12, "logicalType": "duration"}, b"\xff" * 12),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "body"), LOGICAL)
def test_logical_types_survive_exactly(both, shape, body):
    """Out of range, padded, or no uuid at all: what is kept is the same bytes under the same logical type."""
    out = both.topic(KEEP_ALL).strip(_batch(_values(both, _record(("x", shape)), [body])))
    schema_id, kept = split(out.values[0])
    assert kept == body
    assert json.loads(both.central.schema(schema_id))["fields"][0]["type"] == shape


@pytest.mark.parametrize(("shape", "body"), LOGICAL)
def test_redacted_logical_types_are_readable(both, shape, body):
    """The constant is a value of the logical type: zero, the epoch, the zero uuid."""
    policy = KEEP_ALL.replace("default: keep", "fields: {x: redact}")
    out = both.topic(policy).strip(_batch(_values(both, _record(("x", shape)), [body])))
    _, record = both.decoded(out.values[0])
    assert "1970-01-01" in str(record["x"]) or not str(record["x"]).strip("0-:.TZ+ b'\\x") or record["x"] == 0


def test_redact_has_a_constant_for_every_type(both):
    """The documented constants; a value of the rule's own where it fits."""
    enum = {"type": "enum", "name": "E", "symbols": ["JANE"]}
    fields = [("s", "string"), ("i", "int"), ("l", "long"), ("f", "float"), ("d", "double"), ("b", "boolean"),
              ("y", "bytes"), ("e", enum), ("x", {"type": "fixed", "name": "F", "size": 2})]  # fmt: skip
    record = {"s": "j", "i": 1, "l": 2, "f": 1.5, "d": 2.5, "b": True, "y": b"j", "e": "JANE", "x": b"jj"}
    _, out = both.stripped(KEEP_ALL.replace("default: keep", 'fields: {"**": redact}'), _record(*fields), record)
    assert out == {"s": "[REDACTED]", "i": 0, "l": 0, "f": 0.0, "d": 0.0, "b": False, "y": b"", "e": "REDACTED",
                   "x": b"\0\0"}  # fmt: skip
    _, out = both.stripped(
        KEEP_ALL.replace("default: keep", 'fields: {"**": {redact: {value: "-7"}}}'), _record(*fields), record
    )
    assert (out["s"], out["i"], out["l"], out["f"], out["y"]) == ("-7", -7, -7, 0.0, b"-7")


def test_null_stays_null(both):
    """No operator makes something of nothing, and a null does not become the schema's default."""
    schema = _record(("x", ["string", "null"]))
    schema["fields"][0]["default"] = "default"
    for operator in ("redact", "nullify", "{pseudonymize: {key: customer, domain: d}}"):
        policy = KEEP_ALL.replace("default: keep", f"fields: {{x: {operator}}}")
        assert both.stripped(policy, schema, {"x": None})[1] == {"x": None}


def test_a_lost_branch_becomes_null(both):
    """The record is delivered though its value has no type any more."""
    schema = _record(("u", ["string", "long", "double"]))
    policy = KEEP_ALL.replace("default: keep", "fields: {u: {pseudonymize: {key: customer, domain: d}}}")
    out = both.strip(policy, schema, {"u": "x"}, {"u": 1.5}, {"u": 7})
    decoded = [both.decoded(value)[1]["u"] for value in out.values]
    assert decoded[1] is None
    assert [item[:3] for item in (decoded[0], decoded[2])] == ["v1_", "v1_"]
    assert out.counts == {("u", "pseudonymize"): 2, ("u", "drop"): 1}


def test_one_identifier_one_token(both):
    """The same customer as number, text, in an array, as a map key and in a record key: one token."""
    schema = _record(("n", "long"), ("s", ["null", "string"]), ("a", {"type": "array", "items": "int"}),
                     ("m", {"type": "map", "values": "int"}))  # fmt: skip
    token = "{pseudonymize: {key: customer, domain: customer}}"
    policy = f"policy: p\nversion: 1\ntopics: {{orders: {{key: {token}, fields: {{'**': {token}}}}}}}\n"
    value = both.value(schema, {"n": 42, "s": "42", "a": [42], "m": {"42": 42}})
    out = both.topic(policy).strip(Batch([b"42"], [value], [None]))
    record = both.decoded(out.values[0])[1]
    tokens = {record["n"], record["s"], *record["a"], *record["m"], *record["m"].values(), out.keys[0].decode()}
    assert len(tokens) == 1
    assert tokens.pop().startswith("v1_")


def test_tombstones_pass_with_their_key(both):
    """A deletion is delivered under the transformed key, with allowed headers."""
    policy = (
        "policy: p\nversion: 1\ntopics: {orders: {headers: [a],"
        " key: {pseudonymize: {key: customer, domain: customer}}}}\n"
    )
    out = both.topic(policy).strip(Batch([b"42"], [None], [[("a", b"1"), ("b", b"2"), ("a", None)]]))
    assert out.values == [None]
    assert out.keys[0].startswith(b"v1_")
    assert out.headers == [[("a", b"1"), ("a", None)]]
    assert out.rejected == {}
    assert out.counts == {("@key", "pseudonymize"): 1, ("@headers", "drop"): 1}


def test_every_bad_record_has_its_reason_and_the_rest_is_delivered(both):
    """Wrong magic, unknown id, bytes that are no value, nesting: each rejected alone, nothing of it in the output."""
    schema = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
    good = both.value(schema, {"next": {"next": None}})
    refused = frame(both.edge.register("x", '{"type": "object"}'), b"x")
    batch = [good, b"\1wrong", frame(77, b"x"), good[:5] + b"\7", good[:5] + b"\2" * 5000, refused, b"", good]
    out = both.topic(KEEP_ALL).strip(Batch([b"k"] * 8, batch, [[("h", b"x")]] * 8))
    assert out.rejected == {
        1: Rejection(Reason.WRONG_MAGIC),
        2: Rejection(Reason.UNKNOWN_SCHEMA, 77),
        3: Rejection(Reason.UNDECODABLE, 1),
        4: Rejection(Reason.TOO_DEEP, 1),
        5: Rejection(Reason.SCHEMA_REFUSED, 2),
        6: Rejection(Reason.WRONG_MAGIC),
    }
    assert [value is None for value in out.values] == [False, *[True] * 6, False]
    assert out.headers[1:7] == [[]] * 6
    assert set(out.counts.values()) == {2}, "rejected records count nothing"


def test_an_unknown_id_is_asked_for_again(both):
    """A schema that appears is used in the next batch, without restart."""
    strip = both.topic(KEEP_ALL)
    both.edge.register("orders-value", '"string"')
    assert strip.strip(_batch([frame(2, b"\2")])).rejected == {0: Rejection(Reason.UNKNOWN_SCHEMA, 2)}
    both.edge.register("orders-value", '"int"')
    assert strip.strip(_batch([frame(2, b"\2")])).rejected == {}


def test_a_registry_that_is_away_decides_nothing(both):
    """RetryError for a new id, at either end; known ids flow on."""
    schema = _record(("x", "int"))
    value = both.value(schema, {"x": 1})
    strip = both.topic(KEEP_ALL)
    strip.strip(_batch([value]))
    shutil.rmtree(both.root / "edge")
    assert strip.strip(_batch([value])).rejected == {}
    with pytest.raises(RetryError):
        strip.strip(_batch([value, frame(9, b"")]))
    again = both.topic(KEEP_ALL)
    again._values._edge_registry._texts[1] = json.dumps(schema)
    again._values._central_registry._root = both.root / "gone" / "central"
    with pytest.raises(RetryError):
        again.strip(_batch([value]))


def test_the_derived_schema_is_registered_first_and_once_for_all_regions(both):
    """Two regions with one schema share a central id, each under its own subject; a key's has its own too."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {key: keep, fields: {x: keep}}}\n"
    schema = _record(("x", "int"), ("y", "string"))
    value, key = both.value(schema, {"x": 1, "y": "a"}), both.value("string", "k", "orders-key")
    ids = set()
    for central in ("eu.orders", "us.orders"):
        out = both.topic(policy, central=central).strip(Batch([key], [value], [None]))
        ids.add((split(out.keys[0])[0], split(out.values[0])[0]))
    assert len(ids) == 1
    assert both.central.subjects() == ["eu.orders-key", "eu.orders-value", "us.orders-key", "us.orders-value"]
    assert fastavro.parse_schema(json.loads(both.central.schema(ids.pop()[1])))["fields"][0]["name"] == "x"


def test_one_id_with_two_meanings_holds_the_topic(both):
    """Nothing is guessed, nothing is returned."""
    both.edge.register("a", '"string"')
    (both.root / "edge" / "b").mkdir()
    (both.root / "edge" / "b" / "1-1.avsc").write_text('"long"')
    with pytest.raises(HoldError, match="two meanings"):
        both.topic(KEEP_ALL).strip(_batch([frame(1, b"\2")]))


def test_a_keep_closes_on_its_day(both):
    """The day is asked for with every batch: what was open yesterday is dropped today, without restart."""
    policy = (
        "policy: p\nversion: 1\ntags: {PII: drop}\n"
        "topics: {orders: {fields: {x: {keep: {reason: r, owner: o, expires: 2026-11-02}}, y: keep}}}\n"
    )
    schema = _record(("x", "string"), ("y", "int"))
    schema["fields"][0]["confluent:tags"] = ["PII"]
    value = both.value(schema, {"x": "jane", "y": 1})
    strip = both.topic(policy)
    assert both.decoded(strip.strip(_batch([value])).values[0])[1] == {"x": "jane", "y": 1}
    strip._today = lambda: date(2026, 11, 2)
    assert both.decoded(strip.strip(_batch([value])).values[0])[1] == {"y": 1}


def test_a_key_that_is_missing_is_named(both):
    """A policy's key that the configuration lacks, or that cannot be read: a ConfigError with the key's name."""
    policy = KEEP_ALL.replace("default: keep", "fields: {x: {pseudonymize: {key: nobody, domain: d}}}")
    with pytest.raises(ConfigError, match="key nobody is not configured"):
        both.strip(policy, _record(("x", "string")), {"x": "a"})
    with pytest.raises(ConfigError, match="key nobody"):
        both.topic(policy.replace("fields: {x: {pseud", "key: {pseud").replace("}}}}", "}}}"))


def test_an_operator_that_fails_rejects_its_records_only(both):
    """OPERATOR_FAILED for the value that it raises for; never the input."""
    schema = _record(("x", "string"))
    strip = both.topic(KEEP_ALL.replace("default: keep", "fields: {x: redact}"))
    values = [both.value(schema, {"x": text}) for text in ("good", "bad", "good")]
    strip.strip(_batch(values[:1]))
    (distinct,) = strip._values._calls.values()

    def operator(asked):
        if asked == [b""] * 2:
            raise ValueError("whole list")
        return ["ok"] if asked else []

    distinct._operator = operator
    distinct._known.clear()
    out = strip.strip(_batch(values))
    assert out.rejected == {}
    distinct._operator = lambda _: [7]
    distinct._known.clear()
    out = strip.strip(_batch(values))
    assert set(out.rejected.values()) == {Rejection(Reason.OPERATOR_FAILED, 1)}
    assert out.values == [None] * 3


def test_memory_is_bounded(both):
    """The results that are remembered never exceed the capacity, and forgetting changes no result."""
    schema = _record(("x", "int"))
    strip = both.topic(KEEP_ALL.replace("default: keep", "fields: {x: {pseudonymize: {key: customer, domain: d}}}"))
    values = [both.value(schema, {"x": n}) for n in range(50)]
    first = strip.strip(_batch(values)).values
    (distinct,) = strip._values._calls.values()
    distinct._capacity = 20
    again = [value for start in (0, 15, 30) for value in strip.strip(_batch(values[start : start + 15])).values]
    assert again == first[:45]
    assert len(distinct._known) <= 20
    assert strip.strip(_batch(values)).values == first


def test_a_branch_that_is_nullified_leaves_its_type_to_another(both):
    """Two branches become bytes, and one of them null: the other's token is there, under the type that both have."""
    schema = _record(("u", [
        {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2, "confluent:tags": ["NULL"]},
        {"type": "fixed", "name": "F", "size": 2},
    ]))  # fmt: skip
    schema["fields"][0]["confluent:tags"] = ["RAW"]
    out = both.topic(TOKENS).strip(_batch(_values(both, schema, [b"\2ab", b"\0\2\1"])))
    decoded = [both.decoded(value)[1]["u"] for value in out.values]
    assert (decoded[0][:1], len(decoded[0]), decoded[1]) == (b"\1", 17, None)
