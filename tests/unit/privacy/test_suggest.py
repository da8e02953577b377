"""Suggestions from a sample: what is recognised, what is not, and that no value gets out."""

import json
from datetime import date

import pytest

from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.privacy.review.suggest import (
    HEADERS,
    KEY,
    as_yaml,
    json_suggestions,
    named,
    scalars,
    suggestions,
    whole_suggestion,
)

SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "string"}, {"name": "b", "type": "string"}, {"name": "c", "type": ["null", "string"]},
    {"name": "d", "type": {"type": "array", "items": {"type": "record", "name": "I", "fields": [
        {"name": "e", "type": "string"}, {"name": "zip", "type": "string"}]}}},
    {"name": "f", "type": {"type": "map", "values": "string"}},
    {"name": "g", "type": "long"}, {"name": "h", "type": "string"}, {"name": "i", "type": "string"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "free.text", "type": "null"}, {"name": "customerEmail", "type": "string"},
]}).replace("free.text", "free")  # fmt: skip


def record(number):
    """One of a sample: an address, a telephone, a card, an IBAN, a network address, and numbers that are none."""
    return {
        "a": f"p{number}@x.example", "b": "+49 30 1234567", "c": f"ask q{number}@x.example soon" if number else None,
        "d": [{"e": "4111 1111 1111 1111", "zip": "10115"}], "f": {"10.1.2.3": "DE89 3704 0044 0532 0130 00"},
        "g": 4111111111111111 + number, "h": "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", "i": "plain", "at": 1_700_000,
        "free": None, "customerEmail": "none",
    }  # fmt: skip


@pytest.fixture
def found():
    """Suggestions of ten records, by path."""
    return {one.path: one for one in suggestions(SCHEMA, map(record, range(10)), key="k")}


def test_each_detector_and_each_name_is_recognised(found):
    """Whole values give the kind, an address among words gives free text, and a telling name is enough."""
    tags = {path: one.tag for path, one in found.items()}
    assert tags == {
        "a": "PII.EMAIL",
        "b": "PII.PHONE",
        "c": "PII.TEXT",
        "d[].e": "PII.CARD",
        "d[].zip": "PII",
        "f.{key}": "PII.IP",
        "f.{}": "PII.BANK",
        "h": "PII.SECRET",
        "customerEmail": "PII.EMAIL",
    }
    assert found["a"].shares == {"email": 1.0}
    assert (found["c"].values, found["c"].rule) == (9, "redact")
    assert (found["customerEmail"].shares, found["customerEmail"].by_name) == ({}, "email")


def test_numbers_are_not_taken_for_telephones_and_timestamps_not_for_anything(found):
    """A long of sixteen digits of which few pass a check, and an instant, are left alone."""
    assert not {"g", "at", "i"} & found.keys()


def test_what_is_suggested_is_a_policy(found):
    """The lines can be pasted under `topics:`, and every path has its rule."""
    lines = as_yaml("shop.orders", found.values())
    policy = parse_policy("policy: p\nversion: 1\ntopics:\n" + "".join(f"  {line}\n" for line in lines))
    view = policy.view("shop.orders")
    assert {path for path, _ in view.fields} == found.keys()
    assert policy.keys() == {"k"}
    assert policy.view("shop-orders").fields == ()
    assert as_yaml("t", []) == ['"t":', "  fields: {}"]


def test_what_is_suggested_fits_the_type():
    """Whatever a field is called: an operator that does not take its type would drop it, and say so in the plan."""
    names = ("ip", "email", "phone", "uuid", "iban", "card", "customer", "birthday", "note", "zip", "secret", "lat")
    fields = [{"name": f"{name}_{kind}", "type": kind} for name in names for kind in ("string", "int", "long")]
    fields.append({"name": "ip_null", "type": ["null", "long"]})
    schema = json.dumps({"type": "record", "name": "R", "fields": fields})
    sample = {one["name"]: "10.1.2.3" if one["type"] == "string" else 167_837_955 for one in fields}
    for records in ([], [sample]):
        lines = as_yaml("t", suggestions(schema, records, key="k"))
        policy = parse_policy("policy: p\nversion: 1\ntopics:\n" + "".join(f"  {line}\n" for line in lines))
        rows = compile_plan(schema, value_scope(policy, "t"), date(2026, 1, 1)).rows
        assert len(rows) == len(fields)
        assert [row.path for row in rows if "does not take" in row.because] == []
    (one,) = json_suggestions([{"ip": 167_837_955}])
    assert one.rule == "drop"
    (one,) = json_suggestions([{"ip": 167_837_955}, *[{"ip": "10.1.2.3"}] * 9])
    assert one.rule == "mask_ip"


def test_no_value_gets_out(found):
    """Neither the suggestions nor the lines hold a piece of a record."""
    told = repr(found) + "".join(as_yaml("t", found.values()))
    for piece in ("x.example", "1234567", "4111", "DE89", "10.1.2.3", "eyJ", "10115"):
        assert piece not in told


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("customer.email", "email"), ("emails[]", "email"), ("a.phone_number", "phone"), ("clientIP", "ip"),
        ("first_name", "name"), ("lastName", "name"), ("dateOfBirth", "birth"), ("iban", "iban"),
        ("cardNumber", "card"), ("passport", "id"), ("comment", "text"), ("zip.{}", "address"), ("lat", "place"),
        ("ipv4", "ip"), ("src_ipv6", "ip"), ("remote_addr", "ip"), ("mac_addr", ""), ("ips_avg", ""), ("elNino", ""),
        ("cell_phone", "phone"),
        ("imei", "id"), ("maritalStatus", "sensitive"), ("apiKey", "secret"), ("cellId", ""), ("flight", ""),
        ("name", ""), ("price", ""), ("shipment", ""), ("", ""),
    ],
)  # fmt: skip
def test_names_are_read_by_their_words(path, kind):
    """Snake and camel case alike, the last name of the path only, and no part of a word."""
    assert named(path) == kind


UUIDS = ["11111111-2222-4333-8444-555555555555", "{AAAAAAAA-1234-4567-8901-012345678901}"]


@pytest.mark.parametrize(
    ("values", "tag"),
    [
        (UUIDS[:1], "PII.ID"), (UUIDS, "PII.ID"), (["+49 30 1234567"], "PII.PHONE"), (["2026-11-01"], None),
        (["2026-11-01T10:00:00.123+02:00"], None), (["2026-11-01 call 030 1234567"], "PII.TEXT"), ([20261101], None),
        ([f"order {UUIDS[0]} is late"], None), ([f"{UUIDS[0]} of p@x.example"], "PII.TEXT"),
        (["p@x.example"], "PII.EMAIL"),
        (["11111111222243338444555555555555"], None), (["10.0.0.1"], "PII.IP"), (["plain"], None), ([], None),
    ],
)  # fmt: skip
def test_a_uuid_and_a_date_are_no_phone_numbers(values, tag):
    """Both have groups of digits; beside them a number is found as ever."""
    found = whole_suggestion(values)
    assert (found and found.tag) == tag
    (inside,) = json_suggestions([{"x": value} for value in values]) or (None,)
    assert (inside and inside.tag) == tag


def test_a_uuid_keeps_its_type():
    """Of a field of that logical type, too; a telling name decides what else it is."""
    schema = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": name, "type": {"type": "string", "logicalType": "uuid"}}
            for name in ("order", "customer", "session")
        ],
    }
    records = [dict.fromkeys(("order", "customer", "session"), UUIDS[0])]
    rules = {one.path: one.rule for one in suggestions(json.dumps(schema), records, key="k")}
    token = "{pseudonymize: {key: k, domain: k, encode: uuid}}"
    assert rules == {"order": token, "customer": token, "session": "drop"}  # fmt: skip


def test_json_is_read_as_avro_is():
    """The same sample without a schema: what is found lies under the same paths; names that are data are none."""
    by_schema = {one.path: one.tag for one in suggestions(SCHEMA, map(record, range(10)))}
    by_json = {one.path: one.tag for one in json_suggestions(list(map(record, range(10))))}
    of_names = {"f.{key}", "f.{}"}
    assert {path: tag for path, tag in by_json.items() if path not in of_names} == {
        path: tag for path, tag in by_schema.items() if path not in of_names
    }
    assert of_names <= by_json.keys()
    people = json_suggestions([{"by": {f"p{n}@x.example": {"iban": "none"}}} for n in range(4)])
    assert {one.path: one.tag for one in people} == {"by.{key}": "PII.EMAIL", "by.{}.iban": "PII.BANK"}


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (["p@x.example"], "{pseudonymize: {key: k, domain: email}}"),
        ([UUIDS[0]], "{pseudonymize: {key: k, domain: k}}"),
        (["4111 1111 1111 1111"], "{pseudonymize: {key: k, domain: k}}"),
        (["plain"], None),
    ],
)
def test_a_key_gets_a_token(values, rule):
    """Nothing else keeps keys apart."""
    found = whole_suggestion(values, key="k", place=KEY)
    assert (found and found.rule) == rule


def test_parts_of_an_avro_key_are_one():
    """Its words and numbers, wherever they lie."""
    assert sorted(map(str, scalars(SCHEMA, record(1))))[:2] == ["+49 30 1234567", "10.1.2.3"]


def test_every_place_is_a_line_of_a_policy():
    """Key, value, fields and headers of a topic without a schema; the lines can be pasted."""
    key = whole_suggestion(["p@x.example"], key="k", place=KEY)
    headers = json_suggestions([{"x-user": "p@x.example", "trace": "1"}], place=HEADERS)
    fields = json_suggestions([{"mail": "p@x.example"}], key="k")
    whole = whole_suggestion(["to p@x.example"], key="k")
    for form, found in ((ValueFormat.JSON, [*fields, key, *headers]), (ValueFormat.TEXT, [whole, key, *headers])):
        lines = as_yaml("events", found, form)
        policy = parse_policy("policy: p\nversion: 1\ntopics:\n" + "".join(f"  {line}\n" for line in lines))
        view = policy.view("events")
        assert (view.value_format, [rule.operator for rule in view.keys], view.headers) == (form, ["pseudonymize"], ())
        assert [rule.operator for rule in view.values] == ["redact" if form is ValueFormat.TEXT else "drop"]
        assert "header x-user is not to pass: PII.EMAIL" in "".join(lines)
        assert "x.example" not in "".join(lines)
