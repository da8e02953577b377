"""Suggestions from a sample: what is recognised, what is not, and that no value gets out."""

import json

import pytest

from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.suggest import as_yaml, named, suggestions

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
        ("apiKey", "secret"), ("flight", ""), ("name", ""), ("price", ""), ("shipment", ""), ("", ""),
    ],
)  # fmt: skip
def test_names_are_read_by_their_words(path, kind):
    """Snake and camel case alike, the last name of the path only, and no part of a word."""
    assert named(path) == kind
