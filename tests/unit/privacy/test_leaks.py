"""No canary anywhere: every shape, operator and place (value, key, header), searched in all that comes out."""

import json

import pytest

from aggregator.privacy.strip import Batch
from tests.unit.privacy.corpus import schema_of, shapes, traces

CANARY = "canary_q7Zx3"
SHAPES = shapes(CANARY)
TOKEN = "{pseudonymize: {key: customer, domain: d}}"
OPERATORS = {
    "drop": "drop",
    "nullify": "nullify",
    "redact": "redact",
    "hex": TOKEN,
    "uuid": TOKEN.replace("domain: d", "domain: d, encode: uuid, normalize: email"),
    "bytes": TOKEN.replace("domain: d", "domain: d, encode: bytes"),
}


def _policy(operator, fields="kept: keep", key="keep"):
    return (
        f"policy: p\nversion: 1\ntags: {{PII: {operator}}}\n"
        f"topics: {{orders: {{key: {key}, headers: [traceparent], fields: {{{fields}}}}}}}\n"
    )


def _found(lab, out):
    """Where a trace of the canary is, in all that leaves: records, reasons, counts, and the registry's files."""
    files = {str(path): path.read_bytes() for path in (lab.root / "central").rglob("*") if path.is_file()}
    places = {"keys": out.keys, "values": out.values, "headers": out.headers, **files}
    places |= {"report": [repr(out.rejected), repr(out.counts)], "names": list(files)}
    seen = {name: repr(place).encode() + _joined(place) for name, place in places.items()}
    return [name for name, data in seen.items() if any(trace in data for trace in traces(CANARY))]


def _joined(place):
    if isinstance(place, bytes):
        return place
    return b"|".join(item for item in place if isinstance(item, bytes))


@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("name", SHAPES)
def test_values(lab, name, operator):
    """What is tagged does not leave in clear, whatever its shape; what is kept beside it does."""
    shape = SHAPES[name]
    value = lab.value(schema_of(shape, CANARY), {"kept": "survivor", "shared": {"s": CANARY}, "x": shape.value})
    batch = Batch([None], [value], [[("secret", CANARY.encode()), ("traceparent", b"t")]])
    out = lab.topic(_policy(OPERATORS[operator])).strip(batch)
    assert out.rejected == {}
    assert b"survivor" in out.values[0]
    assert out.headers == [[("traceparent", b"t")]]
    assert _found(lab, out) == []


@pytest.mark.parametrize("default", ["drop", "nullify", "redact"])
@pytest.mark.parametrize("name", SHAPES)
def test_values_without_any_tag(lab, name, default):
    """What nobody declared does not leave either."""
    shape = SHAPES[name]
    schema = json.loads(json.dumps(schema_of(shape, CANARY)).replace("confluent:tags", "other"))
    value = lab.value(schema, {"kept": "survivor", "shared": {"s": CANARY}, "x": shape.value})
    policy = f"policy: p\nversion: 1\ndefault: {default}\ntopics: {{orders: {{fields: {{kept: keep}}}}}}\n"
    out = lab.topic(policy).strip(Batch([CANARY.encode()], [value], [None]))
    assert out.rejected == {}
    assert b"survivor" in out.values[0]
    assert _found(lab, out) == []


@pytest.mark.parametrize("key", ["keep", TOKEN, "drop"])
@pytest.mark.parametrize("name", SHAPES)
def test_keys(lab, name, key):
    """An Avro key's tags close it, whatever the key's operator says."""
    shape = SHAPES[name]
    schema = schema_of(shape, CANARY)
    framed = lab.value(schema, {"kept": "survivor", "shared": None, "x": shape.value}, "orders-key")
    out = lab.topic(_policy("drop", key=key)).strip(Batch([framed], [None], [None]))
    assert out.rejected == {}
    (lab.root / "central").mkdir(exist_ok=True)
    assert _found(lab, out) == []


@pytest.mark.parametrize("name", SHAPES)
def test_the_search_finds_what_is_kept(lab, name):
    """A search that never fails proves nothing: with a justified `keep` of everything every shape shows its canary."""
    shape = SHAPES[name]
    value = lab.value(schema_of(shape, CANARY), {"kept": "survivor", "shared": None, "x": shape.value})
    fields = "'**': {keep: {reason: r, owner: o, expires: 2030-01-01}}"
    out = lab.topic(_policy("drop", fields)).strip(Batch([None], [value], [None]))
    assert _found(lab, out) != []


def test_rejected_records_leave_nothing(lab):
    """Key, value and headers of a record that can not be delivered are gone; the reason holds no byte of it."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "kept", "type": "string"}]}
    value = lab.value(schema, {"kept": CANARY})
    raw = CANARY.encode()
    values = [raw, value[:-1], value + b"x", b"\0\0\0\0\x63" + raw, value]
    keys = [raw, raw, raw, raw, b"\xff" + raw]
    headers = [[("traceparent", raw)]] * 5
    out = lab.topic(_policy("drop")).strip(Batch(keys, values, headers))
    assert len(out.rejected) == 5
    (lab.root / "central").mkdir(exist_ok=True)
    assert _found(lab, out) == []
