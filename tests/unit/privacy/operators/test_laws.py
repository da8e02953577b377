"""The laws that every operator keeps: types, nulls, errors, classes, parameters; alone and through whole batches."""

import base64
import io
import json
import time
from datetime import date
from itertools import combinations

import fastavro
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.config.secrets import key_ring
from aggregator.errors import ConfigError, Reason
from aggregator.privacy import operators
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.raw_values import raws_of, value_of
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.rules import is_deterministic, most_restrictive, operator_names, privacy_class
from aggregator.schema.avro import Kind
from aggregator.schema.wire import frame
from tests.effort import examples
from tests.reference.operators import LEAVES, ORACLE
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.conftest import TODAY
from tests.unit.privacy.operators.single import operator, rule
from tests.unit.privacy.shapes import Values

pytestmark = pytest.mark.slow

# Operator, and a law of it.
LAWS = [(name, *law) for name, one in ORACLE.items() for law in one.laws]
each_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: f"{law[0]} {law[1]}")


@pytest.fixture
def keys(lab):
    (lab.root / "long").write_text(base64.b64encode(bytes(range(64))).decode())
    lab.keys["long"] = key_ring(f"file:{lab.root / 'long'}")
    return lab.keys


def test_every_operator_has_its_laws():
    """Nothing is left out: what takes no value has none; `custom` and `date_shift` have files of their own."""
    assert {law[0] for law in LAWS} | {"drop", "keep", "custom", "date_shift"} == set(operator_names())
    assert set(ORACLE) == set(operator_names())


@each_law
def test_types(law):
    """What goes in, what comes out, and that nothing else is taken."""
    name, parameters, class_, taken, kind = law
    made, also = rule(name, **parameters), ORACLE[name].also
    assert privacy_class(made).name.lower() == class_
    for leaf_name, (leaf, _) in LEAVES.items():
        result = operators.result(made, leaf)
        wanted = kind if leaf_name in taken else also.get(leaf_name)
        if leaf_name not in taken and leaf_name not in also:
            assert result is None, leaf_name
        elif wanted is None:
            assert result._replace(nullable=False, symbols=leaf.symbols) == leaf, leaf_name
        else:
            assert (result.kind, result.logical) == (Kind(wanted), None), leaf_name


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(st.data())
def test_answers_are_of_the_type_that_was_told(keys, data):
    """Any value of any type that is taken: one answer, of the result's type, or an error, and the same twice."""
    name, parameters, _, taken, _ = data.draw(st.sampled_from(LAWS))
    leaf, shape = LEAVES[data.draw(st.sampled_from(sorted(taken)))]
    made = rule(name, **parameters)
    raw = _raw(leaf, shape, data.draw)
    values = [value_of(leaf, raw)] * 2
    try:
        answers = operator(made, leaf, keys)(values)
        raws_of(operators.result(made, leaf), answers)
    except (OverflowError, TypeError):  # before the first timestamp that there is, or beyond the zone's clock
        assert name == "date_truncate"
    else:
        assert answers[0] == answers[1] or name == "encrypt"


def _raw(leaf, shape, draw):
    """A value as the plan's codec has it, from bytes that the corpus draws."""
    body = Values(draw, shape).write(shape)
    if leaf.kind in (Kind.STRING, Kind.BYTES):
        return fastavro.schemaless_reader(io.BytesIO(body), "bytes", None)
    if leaf.kind in (Kind.INT, Kind.LONG, Kind.ENUM):
        return fastavro.schemaless_reader(io.BytesIO(body), "long", None)
    return body


SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": f"f{number}", "type": ["null", shape]} for number, (_, shape) in enumerate(LEAVES.values())]}  # fmt: skip


def _policy(name, parameters):
    return f'policy: p\nversion: 1\ntopics: {{orders: {{fields: {{"**": {{{name}: {json.dumps(parameters)}}}}}}}}}\n'


@each_law
def test_null_stays_null(lab, keys, law):
    """No operator is asked for a null, and none becomes something."""
    assert keys
    out = lab.stripped(_policy(*law[:2]), SCHEMA, {field["name"]: None for field in SCHEMA["fields"]})[1]
    assert set(out.values()) <= {None}


@each_law
@settings(
    deadline=None,
    max_examples=10,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
def test_both_implementations_agree(lab, keys, data, law):
    """Any values of all types in whole batches: what a stock reader reads, and the same from the reference."""
    schema_id = lab.edge.register("orders-value", json.dumps(SCHEMA))
    bodies = [Values(data.draw, SCHEMA).write(SCHEMA) for _ in range(4)]
    batch = Batch([None] * 4, [frame(schema_id, body) for body in bodies], [None] * 4)
    policy = parse_policy(_policy(*law[:2]))
    slow = ReferenceStrip(
        policy=policy,
        edge_topic="orders",
        central_topic="eu.orders",
        edge_registry=lab.edge,
        central_registry=lab.central,
        key_rings=keys,
        now_s=time.monotonic,
        today=lambda: TODAY,
    ).strip(batch)
    quick = lab.topic(policy).strip(batch)
    assert (quick.rejected, quick.counts) == (slow.rejected, slow.counts)
    assert quick.values == slow.values or law[0] == "encrypt"
    for value in quick.values:
        if value is not None:
            lab.decoded(value, logical=False)


def test_an_operator_that_fails_loses_its_record_only(lab):
    """Never the input: a timestamp that no clock shows is a dead letter, its neighbour passes."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": LEAVES["timestamp"][1]}]}
    schema_id = lab.edge.register("orders-value", json.dumps(schema))
    far = frame(schema_id, lab.body("long", 2**62))
    policy = _policy("date_truncate", {"unit": "day", "tz": "Europe/Berlin"})
    out = lab.topic(policy).strip(Batch([None] * 2, [far, frame(schema_id, b"\0")], [None] * 2))
    assert (out.values[0], out.rejected[0].reason) == (None, Reason.OPERATOR_FAILED)
    assert list(out.rejected) == [0]


def test_a_birthday_at_midnight(lab):
    """The day of stripping is part of an age: the same value is a year older in the next day's batch."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "born", "type": LEAVES["date"][1]}]}
    value = lab.value(schema, {"born": date(2000, 11, 2)})
    days = [date(2026, 11, 1), date(2026, 11, 2)]
    strip = lab.topic(_policy("age", {}), today=None)
    ages = []
    for day in days:
        strip._today = lambda day=day: day
        ages.append(lab.decoded(strip.strip(Batch([None], [value], [None])).values[0])[1]["born"])
    assert ages == [25, 26]


def test_encryption_is_not_remembered(lab, keys):
    """Equal values of two batches have two envelopes."""
    assert keys
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}]}
    batch = Batch([None], [lab.value(schema, {"x": "jane"})], [None])
    strip = lab.topic(_policy("encrypt", {"key": "customer"}))
    assert strip.strip(batch).values != strip.strip(batch).values


@pytest.mark.parametrize(
    ("name", "parameters", "stays"),
    [("encrypt", {"key": "customer"}, False), ("age", {}, False), ("encrypt_deterministic", {"key": "long"}, True)],
)
def test_keys_take_steady_operators_only(lab, keys, name, parameters, stays):
    """What a tag makes of a part of a key is the same tomorrow, or it leaves: order and compaction rest on keys."""
    assert keys
    schema = {"type": "record", "name": "K", "fields": [
        {"name": "id", "type": "long"}, {"name": "x", "type": "string", "confluent:tags": ["T"]}]}  # fmt: skip
    key = lab.value(schema, {"id": 1, "x": "1984-05-06"}, "orders-key")
    policy = (f"policy: p\nversion: 1\ntags: {{T: {{{name}: {json.dumps(parameters)}}}}}\n"
              "topics: {orders: {key: keep}}\n")  # fmt: skip
    assert is_deterministic(rule(name, **parameters)) is stays
    out = lab.topic(policy).strip(Batch([key], [None], [None]))
    assert ("x" in lab.decoded(out.keys[0])[1]) is stays


@pytest.mark.parametrize(
    ("name", "parameters", "stays"),
    [("mask", {}, False), ("scrub_text", {}, False), ("encrypt", {"key": "customer"}, False),
     ("encrypt_deterministic", {"key": "long"}, True)],
)  # fmt: skip
def test_map_keys_take_what_tells_them_apart(lab, keys, name, parameters, stays):
    """An operator that could make two entries one drops the map instead."""
    assert keys
    schema = {"type": "record", "name": "R", "fields": [{"name": "m", "type": {"type": "map", "values": "int"}}]}
    policy = (f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{m: keep, "
              f"'m.{{key}}': {{{name}: {json.dumps(parameters)}}}}}}}}}\n")  # fmt: skip
    out = lab.stripped(policy, schema, {"m": {"jane": 1}})[1]
    assert ("m" in out) is stays
    assert "jane" not in str(out)


def test_the_order_of_restriction_is_total():
    """Any two different rules have one winner, and classes come before anything else."""
    made = [rule(name, **parameters) for name, parameters, *_ in LAWS]
    for one, other in combinations(made, 2):
        winner = most_restrictive([one, other])
        assert winner == most_restrictive([other, one])
        assert privacy_class(winner) == max(privacy_class(one), privacy_class(other))


@each_law
def test_unknown_parameters_are_refused(law):
    """A slip of the pen is no parameter, and no value is quoted."""
    with pytest.raises(ValidationError) as caught:
        rule(law[0], **law[1], sesame="open sesame")
    assert "open" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("mask", {"keep_first": -1}),
        ("mask_email", {"parts": []}),
        ("mask_email", {"parts": ["name"]}),
        ("mask_phone", {"keep_last": 5}),
        ("mask_ip", {"v4_prefix": 32}),
        ("mask_ip", {"v6_prefix": 128}),
        ("mask_card", {"keep_first": 7}),
        ("mask_url", {"parts": ["scheme"]}),
        ("mask_postcode", {"keep_first": 5}),
        ("encrypt", {}),
        ("encrypt_deterministic", {"key": ""}),
        ("round", {}),
        ("round", {"digits": 16}),
        ("truncate", {"length": -1}),
        ("date_truncate", {"unit": "decade"}),
        ("age", {"cap": 0}),
        ("custom", {"name": "x", "type": "record"}),
        ("custom", {"name": "x"}),
        ("date_shift", {"days": 30}),
        ("drop_record", {}),
    ],
)
def test_parameters_that_make_no_sense_are_refused(name, parameters):
    """When the policy is read, not at the first record."""
    with pytest.raises(ValidationError):
        rule(name, **parameters)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_policy_with_any_operator_travels(data):
    """Every rule is read from YAML, hashes, and compares by meaning."""
    name, parameters, *_ = data.draw(st.sampled_from(LAWS))
    text = _policy(name, parameters)
    assert parse_policy(text) == parse_policy(text)
    assert len({parse_policy(text).hash, parse_policy(text).hash, parse_policy(_policy("drop", {})).hash}) == 2


def test_faults_of_parameters_have_their_lines():
    """Each fault is told at its parameter, without the value; keys that operators name are known to the policy."""
    text = """\
policy: p
version: 1
tags:
  A: {mask: {keep_first: -77}}
  B: {geo: {decimals: 1, geohash: 7}}
  C:
    lookup:
      table: sesame
  D: {regex_replace: {pattern: "(sesame", replacement: ""}}
  E: {encrypt: {key: vault}}
"""
    with pytest.raises(ConfigError) as caught:
        parse_policy(text)
    told = str(caught.value)
    assert [line.partition(" ")[0] for line in told.splitlines() if line.startswith("policy:")] == [
        "policy:4:", "policy:5:", "policy:8:", "policy:9:"]  # fmt: skip
    assert "sesame" not in told
    assert "77" not in told
    assert parse_policy("policy: p\nversion: 1\ntags: {E: {encrypt: {key: vault}}}\n").keys() == {"vault"}
