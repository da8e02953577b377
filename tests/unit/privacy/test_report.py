"""What a strip tells of what it has met: every leaf, the rule that fired, exact counts; and fields that are new."""

import json
from datetime import date

import pytest

from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.wire import frame
from tests.unit.privacy.shapes import long_bytes

TOKEN = "{pseudonymize: {key: customer, domain: d}}"
POLICY = f"""
policy: retail
version: 7
tags: {{PII: redact}}
topics:
  orders:
    key: keep
    fields:
      id: keep
      who: {TOKEN}
      "items[].sku": keep
      "items[].note": {TOKEN}
      "m.{{key}}": {TOKEN}
      "m.{{}}": keep
"""
SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"},
    {"name": "who", "type": ["null", "string", "long"]},
    {"name": "items", "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [
        {"name": "sku", "type": "string"}, {"name": "note", "type": ["null", "string"]}]}}},
    {"name": "m", "type": {"type": "map", "values": "int"}},
    {"name": "secret", "type": ["null", "string"], "confluent:tags": ["PII"]},
    {"name": "odd", "type": "int", "confluent:tags": ["NOBODY"]}]}  # fmt: skip


def _record(number, **more):
    who = (None, "jane", 5)[number % 3]
    items = [{"sku": "s", "note": "n" if item else None} for item in range(number)]
    return {"id": number, "who": who, "items": items, "m": {"k": 1, "l": 2}, "secret": None, "odd": 1, **more}


def _numbers(strip):
    """Path and type to the row's numbers: seen, null, transformed, rejected."""
    return {(row.path, row.type): row[7:11] for row in strip.report()}


def _strip(strip, values, keys=None):
    return strip.strip(Batch(keys or [None] * len(values), values, [None] * len(values)))


def test_every_leaf_is_counted(both):
    """Values, nulls among them, and what became of them: in arrays, in maps, by union branch, kept and dropped."""
    strip = both.topic(POLICY)
    values = [both.value(SCHEMA, _record(number)) for number in (0, 1, 2, 3)]
    assert not _strip(strip, values).rejected
    assert _numbers(strip) == {
        ("id", "long"): (4, 0, 0, 0),
        ("who", "string"): (3, 2, 1, 0),
        ("who", "long"): (3, 2, 1, 0),
        ("items[].sku", "string"): (6, 0, 0, 0),
        ("items[].note", "string"): (6, 3, 3, 0),
        ("m.{key}", "string"): (8, 0, 8, 0),
        ("m.{}", "int"): (8, 0, 0, 0),
        ("secret", "string"): (4, 4, 0, 0),
        ("odd", "int"): (4, 0, 4, 0),
        ("@key", "null"): (4, 4, 0, 0),
    }
    _strip(strip, values[:1])
    assert _numbers(strip)["id", "long"] == (5, 0, 0, 0), "the numbers grow"


def test_rows_tell_the_rule(both):
    """Tags, reason, operator and class as `policy explain` has them; what nobody classified is marked."""
    strip = both.topic(POLICY)
    _strip(strip, [both.value(SCHEMA, _record(1))])
    rows = {row.path: row for row in strip.report()}
    assert (rows["secret"].tags, rows["secret"].because, rows["secret"].operator) == (("PII",), "tag PII", "redact")
    assert [row.path for row in strip.report() if row.unclassified] == ["odd"]
    assert {row.schema_id for path, row in rows.items() if path != "@key"} == {1}
    assert rows["who"].privacy_class == "pseudonymous"


def test_what_is_malformed_counts_nothing(both):
    """A record that is refused at its last byte has been seen nowhere."""
    strip = both.topic(POLICY)
    good = both.value(SCHEMA, _record(3))
    out = _strip(strip, [good[:-1], good + b"\0", good, b"junk", None])
    assert len(out.rejected) == 3
    assert _numbers(strip)["items[].sku", "string"] == (3, 0, 0, 0)


def test_records_lost_to_an_operator_are_named_by_their_leaf(both):
    """Two leaves share an operator; the report tells which one failed, once per record."""
    stamp = {"type": "int", "logicalType": "date"}
    shape = [{"name": "a", "type": stamp}, {"name": "b", "type": {"type": "array", "items": stamp}},
             {"name": "who", "type": "string"}]  # fmt: skip
    schema_id = both.edge.register("orders-value", json.dumps({"type": "record", "name": "R", "fields": shape}))
    shift = "{date_shift: {entity: who, days: [1, 9], key: customer}}"
    strip = both.topic(f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{a: {shift}, 'b[]': {shift}}}}}}}\n")
    last, who = long_bytes(2**31 - 1), b"\2x"
    bodies = [b"\0\0" + who, last + b"\0" + who, b"\0\4" + last * 2 + b"\0" + who, last + b"\2" + last + b"\0" + who]
    out = _strip(strip, [frame(schema_id, body) for body in bodies])
    assert list(out.rejected) == [1, 2, 3]
    numbers = _numbers(strip)
    assert (numbers["a", "int (date)"], numbers["b[]", "int (date)"]) == ((4, 0, 2, 2), (3, 0, 1, 2))


def test_a_new_field_is_dropped_and_reported_without_a_restart(both):
    """Another writer schema compiles another plan at once; what nobody classified leaves, and stands in the report."""
    strip = both.topic(POLICY)
    _strip(strip, [both.value(SCHEMA, _record(1))])
    nested = {"type": "record", "name": "N", "fields": [{"name": "phone", "type": "string"}]}
    grown = {**SCHEMA, "fields": [*SCHEMA["fields"], {"name": "email", "type": ["null", "string"], "default": None},
                                  {"name": "contact", "type": ["null", nested], "default": None}]}  # fmt: skip
    canary = _record(1, email="jane@example.com", contact={"phone": "+49 555 0100"})
    out = _strip(strip, [both.value(grown, canary), both.value(SCHEMA, _record(1)), both.value(grown, canary)])
    assert not out.rejected
    assert not any(word in b"".join(out.values) for word in (b"jane@example.com", b"555"))
    assert (out.counts["email", "drop"], out.counts["contact", "drop"]) == (2, 2)
    fresh = [row for row in strip.report() if row.unclassified and row.schema_id == 2]
    assert [(row.path, row.operator, row.because, *row[7:11]) for row in fresh] == [
        ("odd", "drop", "tag NOBODY (undeclared)", 2, 0, 2, 0),
        ("email", "drop", "default", 2, 0, 2, 0),
        ("contact.phone", "drop", "default", 2, 0, 2, 0),
    ]
    assert "email" not in json.dumps(both.decoded(out.values[0])[0])


def test_what_is_left_out_was_still_seen(both):
    """The report is about values that were met; what was delivered is counted elsewhere."""
    strip = both.topic(f"{POLICY}    drop_record: [{{field: id, equals: 2}}]\n")
    out = _strip(strip, [both.value(SCHEMA, _record(number)) for number in (1, 2)])
    assert out.suppressed == {1}
    assert _numbers(strip)["id", "long"] == (2, 0, 0, 0)


def test_days_are_told_apart_where_rules_changed(both):
    """A `keep` that has expired is another reason, and the numbers before it stay."""
    keep = "{keep: {reason: r, owner: o, expires: 2026-11-02}}"
    strip = both.topic(f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{id: {keep}, odd: {keep}}}}}}}\n")
    value = both.value(SCHEMA, _record(1))
    for day in (1, 2, 3):
        strip._today = lambda day=day: date(2026, 11, day)
        _strip(strip, [value] * day)
    told = [(row.operator, row.seen, row.unclassified) for row in strip.report() if row.path == "id"]
    assert told == [("keep", 1, False), ("drop", 5, False)], "a path speaks of it, though it is closed"


@pytest.mark.parametrize(
    ("key", "keys", "expected"),
    [
        ("keep", [b"a", b"a", None, b"\xff"], {("string", "keep"): (3, 0, 0, 1), ("null", "keep"): (1, 1, 0, 0)}),
        (f"{TOKEN}, format: long", [bytes(8), b"x"], {("long", "pseudonymize"): (2, 0, 1, 1)}),
        ("drop", [b"a", b"b", None], {("any", "drop"): (2, 0, 2, 0), ("null", "drop"): (1, 1, 0, 0)}),
        ("keep, format: avro", [b"a", frame(9, b"a")], {("avro", "keep"): (2, 0, 0, 2)}),
    ],
)
def test_record_keys_are_counted(both, key, keys, expected):
    """By their format and what the policy says of them: seen, null, transformed, and what was not what it should be."""
    both.edge.register("orders-value", '"string"')
    strip = both.topic(f"policy: p\nversion: 1\ntopics: {{orders: {{key: {key}}}}}\n")
    _strip(strip, [None] * len(keys), keys)
    assert {(row.path, row.because, row.schema_id) for row in strip.report()} == {("@key", "key", None)}
    assert {(row.type, row.operator): row[7:11] for row in strip.report()} == expected


def test_parts_of_avro_keys_are_counted(both):
    """Under the key's schema, by the key's operator and the tags of the schema; a cut key counts beside them."""
    shape = {"type": "record", "name": "K", "fields": [
        {"name": "id", "type": "long"}, {"name": "mail", "type": "string", "confluent:tags": ["PII"]}]}  # fmt: skip
    key = both.value(shape, {"id": 42, "mail": "jane@example.com"}, "orders-key")
    strip = both.topic("policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {orders: {key: keep}}\n")
    _strip(strip, [None] * 4, [key, key, key[:-1], None])
    told = {row.path: (row.schema_id, row.operator, row.tags, *row[7:11]) for row in strip.report() if row.schema_id}
    assert told == {"@key.id": (1, "keep", (), 2, 0, 0, 0), "@key.mail": (1, "drop", ("PII",), 2, 0, 2, 0)}
    assert _numbers(strip)["@key", "avro"] == (1, 0, 0, 1)
    assert _numbers(strip)["@key", "null"] == (1, 1, 0, 0)


def test_a_key_that_closes_is_told(both):
    """On the day on which its `keep` ends the rows say why."""
    key = "{keep: {reason: r, owner: o, expires: 2026-11-02}}"
    strip = both.topic(f"policy: p\nversion: 1\ntopics: {{orders: {{key: {key}}}}}\n")
    for day in (1, 2):
        strip._today = lambda day=day: date(2026, 11, day)
        _strip(strip, [None], [b"a"])
    assert [(row.operator, row.because, row.seen) for row in sorted(strip.report(), reverse=True)] == [
        ("keep", "key", 1),
        ("drop", "default (keep of the key is void: expired on 2026-11-02)", 1),
    ]


def test_the_policy_and_the_versions_of_its_keys(both):
    """What the run report names: the policy by its hash, each key by the version that makes tokens."""
    strip = both.topic(POLICY)
    assert strip.policy == ("retail", 7, parse_policy(POLICY).hash)
    assert strip.key_versions() == {"customer": 1}
    assert both.topic("policy: p\nversion: 1\n").key_versions() == {}
