"""Record keys: their formats, and one deterministic operator."""

import json
import struct

import pytest

from aggregator.errors import Reason
from aggregator.privacy.batch.strip import Batch, Rejection
from aggregator.schema.wire import APICURIO_KEY_HEADERS, frame, split

TOKEN = "{pseudonymize: {key: customer, domain: customer}}"


def _policy(key, key_format=None):
    key_format = f", format: {key_format}" if key_format else ""
    return f"policy: p\nversion: 1\ntags: {{PII: drop}}\ntopics: {{orders: {{key: {key}{key_format}}}}}\n"


def _keys(lab, policy, *keys):
    out = lab.topic(policy).strip(Batch(list(keys), [None] * len(keys), [None] * len(keys)))
    return [out.rejected.get(index, key) for index, key in enumerate(out.keys)]


def test_no_declaration_drops_the_key(both):
    """What nobody declared does not leave the edge."""
    out = both.topic("policy: p\nversion: 1\ntopics: {orders: {}}\n").strip(Batch([b"x", None], [None] * 2, [None] * 2))
    assert out.keys == [None, None]
    assert out.counts == {("@key", "drop"): 1}


BAD = Rejection(Reason.BAD_KEY)


@pytest.mark.parametrize(
    ("key_format", "good", "bad"),
    [
        (None, "Żółć".encode(), b"\xff"),
        ("string", b"\0\0\0\0\1x", b"\xff"),
        ("long", struct.pack(">q", 42), b"42"),
        ("bytes", b"\xff", None),
        ("json", b'"42"', b"{"),
        ("json", b'{"b": 1, "a": [null, 2.5]}', b"\xff"),
        ("json", b"42", b"[" * 100_000),
    ],
)
def test_formats(both, key_format, good, bad):
    """A key that is what its format says passes its operator; another is BAD_KEY, with `keep` too."""
    kept, kept_bad, null = _keys(both, _policy("keep", key_format), good, bad, None)
    assert (kept, null) == (good, None)
    token, token_bad = _keys(both, _policy(TOKEN, key_format), good, bad)
    assert b"v1_" in token
    assert good not in token
    if bad is not None:
        assert kept_bad == token_bad == BAD


def test_nothing_is_left_of_a_key_once_a_rule_of_one_pattern_has_ended(both):
    """Tokens by another pattern's rule would go to other partitions than what came before."""
    ended = "{keep: {reason: r, owner: o, expires: 2020-01-01}}"
    for form, key in (("string", b"jane"), ("bytes", b"jane"), ("long", struct.pack(">q", 42)), ("json", b"42")):
        policy = _policy(ended, form).replace("orders: {", f'"order.": {{key: {TOKEN}}}, orders: {{')
        assert _keys(both, policy, key) == [None]
        assert _keys(both, policy.replace("2020", "2090"), key) == _keys(both, _policy(TOKEN, form), key)


def test_one_identifier_in_every_format(both):
    """The number 42 as text, as eight bytes and as JSON is one customer; JSON keys stay JSON."""
    text = _keys(both, _policy(TOKEN), b"42")[0]
    assert _keys(both, _policy(TOKEN, "long"), struct.pack(">q", 42)) == [text]
    assert [json.loads(key) for key in _keys(both, _policy(TOKEN, "json"), b"42", b' "42"')] == [text.decode()] * 2


def test_json_keys_are_equal_by_meaning(both):
    """White space and order of names are not part of a key; every name in it is data and hidden with it."""
    one, same, other = _keys(both, _policy(TOKEN, "json"), b'{"a": 1, "b": 2}', b'{"b":2,"a":1}', b'{"a":1,"b":3}')
    assert one == same != other


@pytest.mark.parametrize(
    "keys",
    [
        (b"1", b"1.0", b"10e-1", b" 1 "),
        (b"0", b"-0", b"-0.0", b"0e9"),
        (b"[1, 2]", b"[1.0,2e0]"),
        (b'{"a": {"b": 3}}', b'{"a":{"b":3.0}}'),
        (b'"caf\\u00e9"', '"café"'.encode()),
        (b"1000000000000000000", b"1e18", b"1.0E+18"),
    ],
)
def test_json_numbers_are_equal_by_value(both, keys):
    """However a producer writes a number or a sign: one token, and none that another value has."""
    one, *rest, other = _keys(both, _policy(TOKEN, "json"), *keys, b"1.5")
    assert set(rest) == {one}
    assert other != one


@pytest.mark.parametrize(
    "key", [b'{"id": 1, "id": 2}', b"NaN", b"[Infinity]", b"1e400", b'{"a": 0.1000000000000000055}', b"1" * 30]
)
@pytest.mark.parametrize("operator", ["keep", TOKEN])
def test_a_json_key_that_readers_disagree_about_is_bad(both, key, operator):
    """Two keys that one reader takes for one and another for two would be merged or parted in silence."""
    assert _keys(both, _policy(operator, "json"), key) == [BAD]


def test_avro_keys_by_wire_format(both):
    """Wire magic and a known id: the key's schema decides, its tags close, the rest is registered for keys."""
    schema = {"type": "record", "name": "K", "fields": [
        {"name": "id", "type": "long"}, {"name": "mail", "type": "string", "confluent:tags": ["PII"]}]}  # fmt: skip
    key = both.value(schema, {"id": 42, "mail": "jane@example.com"}, "orders-key")
    (kept,) = _keys(both, _policy("keep"), key)
    assert both.decoded(kept)[1] == {"id": 42}
    both.forget()
    (token,) = _keys(both, _policy(TOKEN), key)
    derived, record = both.decoded(token)
    assert record["id"].startswith("v1_")
    assert derived["fields"][1]["hub.strip"] == "pseudonymize"
    assert both.central.subjects() == ["eu.orders-key"]
    bad = Rejection(Reason.BAD_KEY, split(key)[0])
    assert _keys(both, _policy(TOKEN), key[:6], key + b"x", key) == [bad, bad, token]


def test_bytes_that_only_look_like_avro(both):
    """An unknown id is a bad key, as it may be tagged, and it is not told, as it may be the key.

    Only a declared text is text, whatever it begins with.
    """
    both.edge.register("orders-value", '"string"')
    looks = frame(77, b"abc")
    assert _keys(both, _policy("keep"), looks, b"abc") == [BAD, b"abc"]
    assert _keys(both, _policy("keep", "string"), looks) == [looks]
    assert _keys(both, _policy("keep", "avro"), looks, b"abc") == [BAD, BAD]


@pytest.mark.parametrize("operator", ["keep", TOKEN])
@pytest.mark.parametrize("beside", [[], [b"abc"], [None, frame(77, b"abc"), b"abc"]], ids=["alone", "text", "all"])
def test_a_key_in_another_registry_s_frame_is_no_text(both, operator, beside):
    """AWS Glue's at an edge of Confluent's: its schema may be tagged. Only a declared text is text."""
    both.edge.register("orders-value", '"string"')
    frames = [b"\3" + compression + b"a schema's GUID." + b"jane@example.com" for compression in (b"\0", b"\5")]
    for content in frames:
        found = _keys(both, _policy(operator), *beside, content)
        assert found[-1] == BAD
        alone = _keys(both, _policy(operator), *beside)
        assert found[:-1] == alone, "what stands beside it is read as before"
    near = [frames[0][:17], b"\3\1" + frames[0][2:], b"x" + frames[0]]
    assert _keys(both, _policy("keep"), *near) == near
    assert _keys(both, _policy("keep", "string"), *frames) == frames


@pytest.mark.parametrize("operator", ["keep", TOKEN])
@pytest.mark.parametrize("name", sorted(APICURIO_KEY_HEADERS))
def test_a_bare_key_whose_schema_a_header_of_apicurio_s_names_is_no_text(both, operator, name):
    """Its schema may be tagged. A frame counts on beside a header that somebody passed on, and others mean nothing."""
    framed = both.value("string", "jane", "orders-key")
    named, other = [(name, bytes(8))], [("apicurio.key.encoding", b"BINARY"), ("apicurio.value.globalId", bytes(8))]
    batch = Batch([b"\x20jane@example.com", framed, b"text"], [None] * 3, [named, named, other])
    out = both.topic(_policy(operator)).strip(batch)
    assert out.rejected == {0: BAD}
    assert None not in (out.keys[1], out.keys[2])
    declared = both.topic(_policy("keep", "string")).strip(Batch([b"text"], [None], [named]))
    assert declared.keys == [b"text"]


def test_nothing_left_of_an_avro_key_is_no_key(both):
    """A key that its tags drop as a whole becomes null, and no schema is registered for it."""
    key = both.value({"type": "string", "confluent:tags": ["PII"]}, "jane", "orders-key")
    assert _keys(both, _policy("keep"), key) == [None]
    assert not (both.root / "central").exists()


def test_a_bad_key_rejects_the_whole_record(both):
    """Value and headers of the record do not pass either; the value's own reason comes first."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {key: keep, headers: [h], fields: {x: keep}}}\n"
    value = both.value({"type": "record", "name": "R", "fields": [{"name": "x", "type": "int"}]}, {"x": 1})
    out = both.topic(policy).strip(Batch([b"\xff", b"\xff"], [value, b"?"], [[("h", b"1")]] * 2))
    assert (out.keys, out.values, out.headers) == ([None, None], [None, None], [[], []])
    assert out.rejected == {0: BAD, 1: Rejection(Reason.WRONG_MAGIC)}
