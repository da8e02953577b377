"""What came out by a side door: addresses within addresses, schemes, separators, times of day, defaults, names."""

import io
import json
import math
import struct

import fastavro
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.json.sampled import parts
from aggregator.privacy.operators.redact import REDACTED
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.privacy.review.preview import looked_at, previewed
from aggregator.schema.avro import UNREADABLE_TAG, parse
from aggregator.schema.plain_json import Misfit, encoded
from aggregator.schema.wire import KEY_ID_HEADER, VALUE_ID_HEADER, frame
from tests.unit.privacy.exposure import topic
from tests.unit.privacy.kernel.drawing import TODAY, MemoryRegistry, long_bytes
from tests.unit.privacy.operators.single import one, rule

V4 = "198.51.100.77"
NUMBER = int.from_bytes(bytes(map(int, V4.split("."))))
HEX = f"{NUMBER >> 16:x}:{NUMBER & 0xFFFF:x}"


@pytest.mark.parametrize(
    "address",
    [V4, f"::ffff:{V4}", f"2002:{HEX}::1", f"64:ff9b::{V4}", f"64:ff9b:1:{HEX}::", f"::{V4}", f"::ffff:0:{V4}",
     f"fe80::5efe:{V4}", f"2001:db8::200:5efe:{V4}", f"2001:0:{HEX}::1",
     f"2001:0:1:2:3:4:{NUMBER ^ 0xFFFFFFFF:x}"[:24]],
)  # fmt: skip
@pytest.mark.parametrize("prefix", [48, 64, 127])
def test_an_address_within_an_address_is_masked_too(address, prefix):
    """6to4, NAT64, Teredo, mapped, compatible, translated, ISATAP: the last byte of the inner one never stays."""
    try:
        masked = one(rule("mask_ip", v6_prefix=prefix), address)
    except ValueError:
        masked = REDACTED
    assert V4 not in masked
    assert f"{NUMBER & 0xFFFF:x}" not in masked.split(":")
    assert one(rule("mask_ip", v6_prefix=prefix), masked) == masked


@pytest.mark.parametrize(
    "url", ["mailto:jane@example.com", "mailto://jane.doe", "tel:+49301234567", "tel://49301234567", "skype://jane.doe",
            "sip:jane@example.com", "file://janes-laptop/x", "urn:jane", "data:text/plain,jane", "ssh://jane"],
)  # fmt: skip
def test_a_url_of_another_scheme_is_redacted(url):
    """Its host is no host, but whom it is about."""
    assert one(rule("mask_url"), url) == REDACTED


SEPARATORS = ["_", "\t", "|", "\u2009", "\u2007", "\u202f", "\u00a0", "-", ".", " ", "\u2013", "\u200b", "\u3000"]
FOUND = [("4111", "1111", "1111", "1111"), ("DE89", "3704", "0044", "0532", "0130", "00"), ("+49", "30", "1234567")]


@given(st.sampled_from(SEPARATORS), st.sampled_from(FOUND), st.sampled_from(["{}", "x {} y", "|{}|", "_{}_", "({})"]))
def test_separators_hide_nothing(separator, groups, around):
    """Whatever one sign stands between the groups of a number, it is found."""
    scrubbed = one(rule("scrub_text"), around.format(separator.join(groups)))
    assert not any(group in scrubbed for group in groups if len(group) > 2)


@pytest.mark.parametrize(
    "text",
    ["jane%40example.com", 'write to "jane doe"@example.com', "a|jane@example.com|b", "jane\uff20example.com",
     "jane@[192.0.2.1]", "jane(x)@example.com", "_jane@example.com_",
     "token_eyJhbGciOiJqYW5lIn0.eyJhIjoiamFuZSJ9.jane"],
)  # fmt: skip
def test_addresses_in_other_spellings_are_found(text):
    """Quoted local parts, escapes, comments and literals."""
    assert "jane" not in one(rule("scrub_text"), text)


def _central(schema, body, policy):
    edge, central = MemoryRegistry(), MemoryRegistry()
    value = frame(edge.register("orders-value", json.dumps(schema)), body)
    strip = topic(f"policy: p\nversion: 1\ntopics: {{orders: {policy}}}\n", edge, central)
    strip.strip(Batch([None], [value], [None]))
    return lambda: previewed([(None, value, None)], strip, edge, central, ValueFormat.AVRO, hide=True)[0], central.texts


@pytest.mark.parametrize(
    ("kind", "default"),
    [("int", "jane"), ("int", {"jane": 1}), ({"type": "map", "values": "int"}, {"a": "jane"}), ("boolean", "jane"),
     ({"type": "record", "name": "S", "fields": [{"name": "a", "type": "int"}]}, {"a": 1, "jane": 2})],
)  # fmt: skip
def test_a_default_that_is_none_of_its_type_does_not_travel(kind, default):
    """A kept field's default is looked at before it is registered at central."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": kind, "default": default}]}
    body = long_bytes(0) if kind != {"type": "map", "values": "int"} else b"\0"
    _, texts = _central(schema, body, "{default: keep}")
    assert "jane" not in "".join(texts)
    kept = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "int", "default": 7}]}
    assert '"default":7' in "".join(_central(kept, b"\0", "{default: keep}")[1])


def test_hiding_hides_names_that_are_data():
    """Keys of a map are values; names of the schema are not."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
    body = long_bytes(1) + long_bytes(4) + b"jane" + long_bytes(3) + b"\0"
    lines, _ = _central(schema, body, "{fields: {}}")
    assert "jane" not in str(lines())
    assert "value.m.{key} 1" in [line.path for line in lines()]


def test_hiding_hides_names_of_json():
    """Without a schema every name is data that did not pass."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {value_format: json, fields: {a: keep}}}\n"
    records = [(None, b'{"a": 1, "jane": {"doe": "x"}}', None)]
    (lines,) = previewed(records, topic(policy), MemoryRegistry(), MemoryRegistry(), ValueFormat.JSON, hide=True)
    assert "jane" not in str(lines)
    assert "doe" not in str(lines)
    assert "value.a" in [line.path for line in lines]


def test_what_cannot_be_decoded_is_told_with_its_size():
    """Not as text of so many letters, which are those of the words for it."""
    registry = MemoryRegistry()
    value = frame(registry.register("orders-value", json.dumps({"type": "fixed", "name": "F", "size": 9})), b"short")
    told = {dict(looked_at((None, value, None), registry, hide=hide))["value"].strip('"') for hide in (True, False)}
    assert told == {"(cannot be decoded, 10 bytes)"}


def test_hiding_hides_what_is_no_number():
    """NaN equals nothing, itself included, and is kept all the same."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "double"}]}
    lines, _ = _central(schema, struct.pack("<d", math.nan), "{fields: {x: keep}}")
    assert [line.after for line in lines() if line.path == "value.x"] == ["(kept)"]


def test_hiding_hides_headers_that_did_not_pass():
    """Their names are data; those on the allow-list are the policy's own words."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {value_format: json, headers: [ok]}}\n"
    records = [(None, b"{}", [("ok", b"fine"), ("jane", b"doe")])]
    (lines,) = previewed(records, topic(policy), MemoryRegistry(), MemoryRegistry(), ValueFormat.JSON, hide=True)
    assert "jane" not in str(lines)
    assert "doe" not in str(lines)
    assert {"headers.ok", "headers.{key} 2"} <= {line.path for line in lines}


def test_hiding_hides_what_is_kept_under_another_name():
    """A map's value that stays is told as kept also where its key became a token."""
    token = "{pseudonymize: {key: customer, domain: d}}"
    fields = f"{{m.{{key}}: {token}, m.{{}}: keep}}".replace("m.{key}", '"m.{key}"').replace("m.{}", '"m.{}"')
    policy = f"policy: p\nversion: 1\ntopics: {{orders: {{value_format: json, fields: {fields}}}}}\n"
    records = [(None, b'{"m": {"jane": "doe"}}', None)]
    (lines,) = previewed(records, topic(policy), MemoryRegistry(), MemoryRegistry(), ValueFormat.JSON, hide=True)
    assert "jane" not in str(lines)
    assert "doe" not in str(lines)
    assert "(kept)" in {line.after for line in lines}


def test_hiding_hides_what_is_kept_of_a_record_that_reads_badly():
    """A dropped text that is no UTF-8 costs the record nothing, and what is kept beside it is not shown as new."""
    fields = [{"name": "bad", "type": "string"}, {"name": "kept", "type": "string"}]
    body = long_bytes(1) + b"\xff" + long_bytes(4) + b"jane"
    lines, _ = _central({"type": "record", "name": "R", "fields": fields}, body, "{fields: {kept: keep}}")
    assert "jane" not in str(lines())
    assert ("value.kept", "(new)", "text of 4") in lines()
    fields[1]["type"] = {"type": "map", "values": "int"}
    body = long_bytes(1) + b"\xff\2" + TEXT + b"\0\0"
    lines, _ = _central({"type": "record", "name": "R", "fields": fields}, body, '{fields: {"kept.**": keep}}')
    assert "jane" not in str(lines())
    assert ("value.kept.{key} 1", "(new)", "number") in lines()


TEXT = b"\x08jane"
KEY = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}, {"name": "day", "type": "int"}]}
DAY = {**KEY, "fields": [KEY["fields"][0], {"name": "day", "type": {"type": "int", "logicalType": "date"}}]}
BEYOND_DATES = b"\xfe\xff\xff\xff\x0f"


@pytest.mark.parametrize(
    ("schema", "policy", "key", "value", "headers"),
    [
        ("string", "{key: keep}", TEXT, None, [(KEY_ID_HEADER, frame(2, b""))]),
        (KEY, "{key: keep}", TEXT + b"\0", None, [(KEY_ID_HEADER, frame(2, b""))]),
        (KEY, "{key: keep, format: bytes}", frame(2, TEXT + b"\0"), None, []),
        (KEY, "{key: keep, format: string}", frame(2, TEXT + b"\0"), None, []),
        (DAY, "{key: keep}", frame(2, TEXT + BEYOND_DATES), None, []),
        ({"type": "map", "values": "int"}, "{key: keep}", frame(2, b"\2" + TEXT + b"\0\0"), None, []),
        ("string", "{default: keep}", None, TEXT, [(VALUE_ID_HEADER, frame(2, b""))]),
        (KEY, "{default: keep}", None, TEXT + b"\0", [(VALUE_ID_HEADER, frame(2, b""))]),
        ({"type": "map", "values": "int"}, "{default: keep}", None, frame(2, b"\2" + TEXT + b"\0\0"), []),
    ],
)
def test_hiding_hides_what_is_kept_however_its_schema_is_named(schema, policy, key, value, headers):
    """By a header, by the first bytes, or by bytes that the policy takes for no schema's; names of a map as well."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    edge.register("orders-value", '"long"')  # so that ids differ on both sides
    edge.register("orders-value", json.dumps(schema))
    strip = topic(f"policy: p\nversion: 1\ntopics: {{orders: {policy}}}\n", edge, central)
    (lines,) = previewed([(key, value, headers)], strip, edge, central, ValueFormat.AVRO, hide=True)
    assert "rejected" not in {line.path for line in lines}
    assert "jane" not in str(lines)


def test_hiding_hides_names_that_a_wildcard_keeps():
    """A name that a pattern lets through is data; one that the policy spells is not."""
    policy = 'policy: p\nversion: 1\ntopics: {orders: {value_format: json, fields: {a: keep, "m.**": keep}}}\n'
    records = [(None, b'{"a": 1, "m": {"zoe": "zed", "jane": "doe", "ann": null}}', None)]
    (lines,) = previewed(records, topic(policy), MemoryRegistry(), MemoryRegistry(), ValueFormat.JSON, hide=True)
    assert not any(name in str(lines) for name in ("zoe", "zed", "jane", "doe", "ann"))
    assert ("value.a", "number", "(kept)") in lines


def test_what_is_too_deep_or_has_a_refused_schema_is_shown_as_unreadable():
    """Nobody learns from a refusal what stands in a schema, and no depth ends the command."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {value_format: json, fields: {a: keep}}}\n"
    deep = b"[" * 900 + b'"jane"' + b"]" * 900
    (lines,) = previewed(
        [(None, deep, None)], topic(policy), MemoryRegistry(), MemoryRegistry(), ValueFormat.JSON, hide=True
    )
    assert ("rejected", "(new)", '"too_deep"') in lines
    registry = MemoryRegistry()
    for schema in (
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int", "default": "jane"}]},
        {"type": "enum", "name": "E", "symbols": ["jane", "jane"]},
        {"type": "record", "name": "jane-doe", "fields": []},
    ):
        framed = frame(registry.register("t-value", json.dumps(schema)), b"\0")
        assert dict(looked_at((framed, framed, None), registry, hide=True))["value"].startswith("(cannot be decoded, ")


def test_a_header_at_an_edge_is_data_whatever_its_name():
    """Anybody may have written it, also under a name of the hub's own."""
    headers = [("hub.origin", b"jane"), ("jane", b"x")]
    hidden = looked_at((None, None, headers), MemoryRegistry(), hide=True, own=())
    assert "jane" not in str(hidden)


def test_a_type_without_a_namespace_stays_itself():
    """Named from within a namespace it would be another type of that name, or none."""
    bare = {"type": "record", "name": "T", "fields": [{"name": "bare", "type": "int"}]}
    other = {"type": "record", "name": "T", "namespace": "a", "fields": [{"name": "other", "type": "string"}]}
    inner = {"type": "record", "name": "In", "namespace": "a", "fields": [{"name": "t", "type": other}]}
    both = {"type": "record", "name": "Two", "namespace": "b", "fields": [{"name": "u", "type": "T"}]}
    fields = [{"name": "x", "type": bare}, {"name": "y", "type": inner}, {"name": "z", "type": both}]
    _, texts = _central({"type": "record", "name": "R", "fields": fields}, b"\2\0\4", "{default: keep}")
    derived = json.loads(texts[-1])
    assert fastavro.parse_schema(derived)
    assert derived["fields"][2]["type"]["fields"][0]["type"] == "hub.T"


def _key_lines(*, hide):
    schema = {"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "int"}]}
    edge, central = MemoryRegistry(), MemoryRegistry()
    key = frame(edge.register("orders-key", json.dumps(schema)), long_bytes(4) + b"jane" + long_bytes(7))
    policy = "policy: p\nversion: 1\ntopics: {orders: {key: {pseudonymize: {key: customer, domain: d}}}}\n"
    (lines,) = previewed([(key, None, None)], topic(policy, edge, central), edge, central, ValueFormat.AVRO, hide=hide)
    return {line.path: (line.before, line.after) for line in lines}


def test_a_key_in_wire_format_is_shown_by_its_schema():
    """Field beside field, as a value is; hidden, its names stay and its values go."""
    shown = _key_lines(hide=False)
    assert {path: before for path, (before, _) in shown.items() if path.startswith("key")} == {
        "key.id": '"jane"',
        "key.n": "7",
    }
    assert "v1_" in shown["key.id"][1]
    hidden = _key_lines(hide=True)
    assert hidden.keys() == shown.keys()
    assert hidden["key.id"] == ("text of 4", shown["key.id"][1])
    assert "jane" not in str(hidden)


def test_a_record_is_shown_as_it_lies_and_hidden_by_default():
    """Types and lengths, names of the schema, and what the hub itself wrote; nothing else of it."""
    registry = MemoryRegistry()
    schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "string"}}]}
    framed = frame(
        registry.register("t-value", json.dumps(schema)),
        long_bytes(1) + long_bytes(4) + b"jane" + long_bytes(3) + b"doe\0",
    )
    headers = [("hub.origin", b"eu/t/0/7/0"), ("who", b"jane")]
    hidden = dict(looked_at((b"jane", framed, headers), registry, hide=True))
    assert hidden == {
        "key": "text of 4",
        "headers.hub.origin": '"eu/t/0/7/0"',
        "headers.{key} 2": "text of 4",
        "value.m.{key} 1": "text of 3",
    }
    shown = dict(looked_at((b"jane", framed, headers), registry, hide=False))
    assert (shown["key"], shown["value.m.jane"]) == ('"jane"', '"doe"')
    for value, leaf in (
        (b'{"jane": 1}', "value.{key} 1"),
        (b"jane doe", "value"),
        (b"\xff\0", "value"),
        (None, "value"),
    ):
        hidden = dict(looked_at((None, value, None), registry, hide=True))
        assert leaf in hidden
        assert "jane" not in str(hidden)
    assert dict(looked_at((b"\xe9", b"\xff\0", None), registry, hide=True)) == {"key": "1 byte", "value": "2 bytes"}


def test_a_name_of_a_json_object_is_told_only_where_it_is_no_data():
    """Numbers behind letters, names of one object only, and what half of them have: all data."""

    def told(*records):
        return {part.path for part in parts(records)}

    iban = {"accounts": {"PL61109010140000071219812874": {"email": "x"}}}
    assert told(iban) == {"accounts.{key}", "accounts.{}.{key}", "accounts.{}.{}"}
    assert told(*[iban] * 9) == {"accounts.{key}", "accounts.{}.email"}
    assert told({"a": 1, "guardian": {"anna-maria": 1}}, *[{"a": 1}] * 8) == {"a", "{key}", "{}.{key}", "{}.{}"}
    assert told({"a": 1}, {"b": 2}) == {"{key}", "{}"}
    assert told(*[{"address": {"line_2": "x", "q2024": 1}}] * 3) == {"address.line_2", "address.q2024"}


@pytest.mark.parametrize("tag", ["", "\ud800", "\x1b[2J", "\u202e", "x" * 201])
def test_a_tag_that_cannot_be_shown_is_a_tag_still(tag):
    """The field is dropped, and what says why can be written everywhere."""
    field = {"name": "email", "type": "string", "confluent:tags": [tag]}
    schema = {"type": "record", "name": "R", "fields": [field, {"name": "n", "type": "int"}]}
    _, texts = _central(schema, b"\x08jane\2", "{fields: {n: keep}}")
    assert [one["name"] for one in json.loads(texts[-1])["fields"]] == ["n"]
    assert parse(json.dumps(schema)).nodes[0].fields[0].tags == {UNREADABLE_TAG}


def test_a_record_that_does_not_fit_is_told_without_its_names():
    """Keys of a map, and names that no schema has, are data."""
    maps = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "long"}}]}
    for record in ({"m": {"jane@example.com": "x"}}, {"jane@example.com": 1}):
        with pytest.raises(Misfit) as caught:
            encoded(json.dumps(maps), record)
        assert "jane" not in str(caught.value)


TREE = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}
HOLDER = {"type": "record", "name": "H", "fields": [{"name": "n", "type": "int"}, {"name": "tree", "type": TREE}]}
CHAIN = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
MARKERS = [{"type": "record", "name": name, "fields": []} for name in ("Catholic", "Jewish")]
KIDS = {"kids": [{"kids": []}, {"kids": [{"kids": []}]}, {"kids": []}]}


@pytest.mark.parametrize(
    ("rules", "tags", "operator"),
    [
        ("", [], "drop"),
        ("tree.**: drop, ", [], "drop"),
        ("tree: drop, ", [], "drop"),
        ("tree: {pseudonymize: {key: customer, domain: c}}, ", [], "drop"),
        ("", ["PII"], "drop"),
        ("", ["unknown to the policy"], "drop"),
        ("tree: keep, ", [], "keep"),
        ("tree.**: keep, ", [], "keep"),
    ],
)
def test_the_shape_of_a_value_is_a_value_too(rules, tags, operator):
    """A tree of records that hold nothing but each other has no leaf, and can say as much as a text does."""
    tree = {"name": "tree", "type": TREE, **({"confluent:tags": tags} if tags else {})}
    schema = {"type": "record", "name": "R", "fields": [{"name": "name", "type": "string"}, tree]}
    edge, central = MemoryRegistry(), MemoryRegistry()
    body = frame(edge.register("orders-value", json.dumps(schema)), b"\x02x" + _body(TREE, KIDS))
    fields = f"{{{rules}name: keep}}"
    strip = topic(
        f"policy: p\nversion: 1\ntags: {{PII: drop}}\ntopics: {{orders: {{fields: {fields}}}}}\n", edge, central
    )
    out = strip.strip(Batch([None], [body], [None])).values[0]
    left = json.loads(central.texts[0])["fields"]
    assert [field["name"] for field in left] == (["name", "tree"] if operator == "keep" else ["name"])
    assert out[5:] == (body[5:] if operator == "keep" else b"\x02x")
    assert [row.operator for row in strip.report() if row.path == "tree"] == [operator]


@pytest.mark.parametrize(
    ("shape", "rules", "rows"),
    [
        (HOLDER, "", {"x.n": "drop", "x.tree": "drop"}),
        (HOLDER, "x.**: keep, ", {"x.n": "keep", "x.tree": "keep"}),
        (["null", TREE], "", {"x": "drop"}),
        ({"type": "array", "items": ["null", TREE]}, "", {"x": "drop"}),
        (TREE, "x.kids: keep, ", {"x": "keep", "x.kids": "keep"}),
        (CHAIN, "", {"x": "drop"}),
        (CHAIN, "x: keep, ", {"x": "keep"}),
        (["null", CHAIN], "", {"x": "drop"}),
        (MARKERS, "x: redact, ", {"x": "drop"}),
        (MARKERS, "x: keep, ", {"x": "keep"}),
    ],
    ids=[
        "inner",
        "inner kept",
        "union",
        "array",
        "a part kept",
        "chain",
        "chain kept",
        "chain or null",
        "markers",
        "markers kept",
    ],
)
def test_a_report_names_every_shape_that_is_kept_or_dropped(shape, rules, rows):
    """Wherever the type lies; a container of which a part is kept is not called dropped."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": shape}]}
    text = f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{{rules}y: keep}}}}}}\n"
    plan = compile_plan(json.dumps(schema), value_scope(parse_policy(text), "orders"), TODAY)
    assert {row.path: row.operator for row in plan.rows} == rows


PSEUDONYMIZE = "{pseudonymize: {key: customer, domain: c}}"


@pytest.mark.parametrize("operator", ["redact", "nullify", "mask", PSEUDONYMIZE, "drop"])
def test_which_of_several_records_without_fields_it_is_is_a_value_too(operator):
    """No operator takes such a record, so that each other rule than `keep` leaves the field out; so it is with keys."""
    fields = [{"name": "n", "type": "string"}, {"name": "x", "type": MARKERS}]
    edge, central = MemoryRegistry(), MemoryRegistry()
    value = edge.register("orders-value", json.dumps({"type": "record", "name": "R", "fields": fields}))
    key = edge.register("orders-key", json.dumps(MARKERS))
    whole = operator if operator == PSEUDONYMIZE else "drop"
    text = f"policy: p\nversion: 1\ntopics: {{orders: {{key: {whole}, fields: {{n: keep, x: {operator}}}}}}}\n"
    strip = topic(text, edge, central)
    bodies = [frame(value, b"\x02a" + which) for which in (b"\0", b"\2")]
    out = strip.strip(Batch([frame(key, b"\0"), frame(key, b"\2")], bodies, [None, None]))
    assert out.rejected == {}
    assert {one[5:] for one in out.values} == {b"\x02a"}
    assert len(set(out.keys)) == 1


def _body(schema, value) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), value)
    return out.getvalue()
