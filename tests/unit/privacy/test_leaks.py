"""No canary anywhere: every shape, operator and place (value, key, header), searched in all that comes out."""

import base64
import json

import pytest

from aggregator.privacy.batch.strip import Batch
from aggregator.schema.wire import frame
from tests.canary import recognised
from tests.unit.privacy.corpus import SURVIVOR
from tests.unit.privacy.exposure import (
    CANARY,
    PLAIN,
    PLAIN_SHAPES,
    SHAPES,
    TRACES,
    UNTAGGED,
    Exposed,
    expose,
    expose_plain,
    framed,
    topic,
)

TOKEN = "{pseudonymize: {key: customer, domain: d}}"
OPERATORS = {
    "drop": "drop",
    "nullify": "nullify",
    "redact": "redact",
    "hex": TOKEN,
    "uuid": TOKEN.replace("domain: d", "domain: d, encode: uuid, normalize: email"),
    "bytes": TOKEN.replace("domain: d", "domain: d, encode: bytes"),
    "encrypt": "{encrypt: {key: customer}}",
    "mask": "mask",
}


def _policy(operator, fields="kept: keep", key="keep"):
    return (
        f"policy: p\nversion: 1\ntags: {{PII: {operator}}}\n"
        f"topics: {{orders: {{key: {key}, headers: [traceparent], fields: {{{fields}}}}}}}\n"
    )


def test_the_corpus_is_large():
    """At least sixty shapes, each with the canary in its bytes or in the text of its schema."""
    assert len(SHAPES) >= 60


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.slow
def test_values(operator):
    """What is tagged does not leave in clear, whatever its shape; what is kept beside it does."""
    exposed = expose(_policy(OPERATORS[operator]))
    assert exposed.out.rejected == {}
    assert all(SURVIVOR.encode() in value for value in exposed.out.values)
    assert exposed.found() == []


WHOLE = {
    "undeclared": "",
    "drop": "value: drop",
    "redact": "value: redact",
    "hex": f"value: {TOKEN}",
    "uuid": f"value: {TOKEN.replace('domain: d', 'domain: d, encode: uuid')}",
    "ended": "value: {keep: {reason: r, owner: o, expires: 2026-10-31}}",
}


@pytest.mark.parametrize("rule", WHOLE)
def test_values_without_parts(rule):
    """Texts and bytes of every shape: nothing of them leaves as value, key or header."""
    exposed = expose_plain(WHOLE[rule])
    assert exposed.found() == []
    assert None not in exposed.out.values


@pytest.mark.slow
def test_the_search_finds_a_whole_value_that_is_kept():
    """With a justified `keep` each shape shows its canary."""
    kept = "{keep: {reason: r, owner: o, expires: 2030-01-01}}"
    lines = expose_plain(f"value: {kept}").found()
    assert {line.rpartition(": value")[0] for line in lines} == PLAIN_SHAPES.keys()


@pytest.mark.parametrize("default", ["drop", "nullify", "redact"])
@pytest.mark.slow
def test_values_without_any_tag(default):
    """What nobody declared does not leave either."""
    policy = f"policy: p\nversion: 1\ndefault: {default}\ntopics: {{orders: {{fields: {{kept: keep}}}}}}\n"
    exposed = expose(policy, source=UNTAGGED)
    assert exposed.out.rejected == {}
    assert all(SURVIVOR.encode() in value for value in exposed.out.values)
    assert exposed.found() == []


@pytest.mark.parametrize("key", ["keep", TOKEN, "drop"])
@pytest.mark.slow
def test_keys(key):
    """An Avro key's tags close it, whatever the key's operator says."""
    exposed = expose(_policy("drop", key=key), "key", framed(shared=False))
    assert exposed.out.rejected == {}
    assert exposed.found() == []


def test_headers():
    """Only named headers pass, and none that holds a shape."""
    exposed = expose(_policy("drop"), "header")
    assert exposed.out.rejected == {}
    assert exposed.out.headers == [[("traceparent", b"t")]] * len(SHAPES)
    assert exposed.found() == []


@pytest.mark.parametrize("place", ["value", "key", "header"])
@pytest.mark.slow
def test_the_search_finds_what_is_kept(place):
    """A search that never fails proves nothing: with a justified `keep` of everything every shape shows its canary."""
    kept = "{keep: {reason: r, owner: o, expires: 2030-01-01}}"
    policy = _policy("drop", f"'**': {kept}", kept).replace("[traceparent]", "[traceparent, secret]")
    lines = expose(policy, place).found()
    if place != "header":
        lines = [line for line in lines if "enum" not in line]
    shown = {line.partition(":")[0] for line in lines} - {"beside the records"}
    assert shown == {name for name in SHAPES if place == "header" or "enum" not in name}


@pytest.mark.parametrize("name", sorted(set(TRACES.values())))
def test_every_encoding_is_recognised(name):
    """Each encoding of the canary is found in the middle of other bytes, and not in those bytes alone."""
    noise = base64.b64encode(bytes(range(256)))
    for trace, told in TRACES.items():
        if told == name:
            assert name in recognised(noise + trace + noise, TRACES)
            assert len(trace) >= 5
    assert recognised(noise, TRACES) == []


@pytest.mark.slow
def test_rejected_records_leave_nothing():
    """Key, value and headers of a record that cannot be delivered are gone; the reason holds no byte of it."""
    source = framed()
    good = frame(source.registry.register("plain", json.dumps(PLAIN)), b"\x18" + CANARY.encode())
    raw = CANARY.encode()
    values = [raw, good[:-1], good + b"x", b"\0\0\0\0\x63" + raw, good, *(record[:-1] for record in source.records)]
    keys = [*[raw] * 4, b"\xff" + raw, *[raw] * len(source.records)]
    headers = [[("traceparent", raw)]] * len(values)
    out = topic(_policy("drop"), source.registry).strip(Batch(keys, values, headers))
    assert sorted(out.rejected) == list(range(len(values)))
    assert Exposed(tuple(map(str, range(len(values)))), out, ()).found() == []
