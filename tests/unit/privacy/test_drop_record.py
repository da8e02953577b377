"""`drop_record`: which records are left out, which are dead because nobody can tell, and how both are counted."""

import json
import time
from itertools import product
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from aggregator.coordinates import EdgePartition
from aggregator.errors import ConfigError, Reason
from aggregator.kafka.native.chunk import Chunk
from aggregator.privacy.batch.column import ABSENT, NOWHERE, ResultColumn, SideValues
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.conditions import Condition
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.topic.suppression import Suppression
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord
from tests.effort import examples
from tests.growth import cpu_s
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.conftest import TODAY

SCHEMA = {"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"},
    {"name": "land", "type": ["null", "string"]},
    {"name": "consent", "type": ["null", {"type": "record", "name": "C", "fields": [
        {"name": "marketing", "type": "boolean"},
        {"name": "level", "type": {"type": "enum", "name": "L", "symbols": ["NONE", "ALL"]}}]}]},
    {"name": "tags", "type": {"type": "array", "items": "string"}},
    {"name": "score", "type": "double"}]}  # fmt: skip
_CONDITION = TypeAdapter(Condition)


def _condition(**parts):
    return _CONDITION.validate_python(parts)


def _policy(*conditions, fields="'**': keep", key="keep"):
    lines = "".join(f"\n      - {json.dumps(condition)}" for condition in conditions)
    return (
        f"policy: p\nversion: 1\ntopics:\n  orders:\n    key: {key}\n    headers: [residency]\n"
        f"    fields: {{{fields}}}\n    drop_record:{lines}\n"
    )


def _record(land="DE", marketing=True, level="ALL", number=1):
    consent = None if marketing is None else {"marketing": marketing, "level": level}
    return {"id": number, "land": land, "consent": consent, "tags": ["a"], "score": 1.5}


def _became(lab, policy, records, headers=None, edge="eu"):
    """What became of each record, in a word; the strip itself proves that nothing is left of what is not delivered."""
    strip = lab.made(
        policy=parse_policy(policy),
        edge_topic="orders",
        central_topic="eu.orders",
        edge_registry=lab.edge,
        central_registry=lab.central,
        key_rings=lab.keys,
        now_s=time.monotonic,
        today=lambda: TODAY,
        edge=edge,
    )
    values = [
        record if record is None or isinstance(record, bytes) else lab.value(SCHEMA, record) for record in records
    ]
    keys = [b"key %d" % number for number in range(len(values))]
    out = strip.strip(Batch(keys, values, headers or [None] * len(values)))
    assert out.suppressed.isdisjoint(out.rejected)
    found = []
    for place, value in enumerate(values):
        is_lost = place in out.suppressed or place in out.rejected
        assert (out.keys[place] is None) is is_lost
        assert (out.values[place] is None) is (is_lost or value is None)
        assert not (is_lost and out.headers[place])
        reason = out.rejected[place].reason if place in out.rejected else None
        found.append("left out" if place in out.suppressed else reason or "delivered")
    return found


CASES = [
    ({"field": "land", "equals": "RU"}, ["delivered", "left out", Reason.UNDECIDED, "delivered"]),
    ({"field": "land", "in": ["RU", "BY"]}, ["delivered", "left out", Reason.UNDECIDED, "delivered"]),
    ({"field": "land", "is_null": True}, ["delivered", "delivered", "left out", "delivered"]),
    ({"field": "land", "is_null": False}, ["left out", "left out", "delivered", "left out"]),
    ({"field": "consent.marketing", "equals": "false"}, ["delivered", "left out", "delivered", Reason.UNDECIDED]),
    ({"not": {"field": "consent.marketing", "equals": "true"}},
     ["delivered", "left out", "delivered", Reason.UNDECIDED]),
    ({"field": "consent.marketing", "is_null": True}, ["delivered", "delivered", "delivered", "left out"]),
    ({"field": "consent.marketing", "equals": "yes"}, [Reason.UNDECIDED] * 4),
    ({"field": "consent.level", "in": ["NONE"]}, ["delivered", "left out", "delivered", Reason.UNDECIDED]),
    ({"field": "id", "in": ["2", "3"]}, ["delivered", "left out", "left out", "delivered"]),
    ({"field": "id", "equals": "two"}, [Reason.UNDECIDED] * 4),
    ({"field": "score", "equals": "1.5"}, [Reason.UNDECIDED] * 4),
    ({"field": "score", "is_null": True}, ["delivered"] * 4),
    ({"field": "tags", "is_null": True}, [Reason.UNDECIDED] * 4),
    ({"field": "nowhere", "is_null": True}, [Reason.UNDECIDED] * 4),
    ({"edge": "eu"}, ["left out"] * 4),
    ({"edge": ["us", "ap"]}, ["delivered"] * 4),
    ({"topic": "orders"}, ["left out"] * 4),
    ({"any": [{"field": "nowhere", "is_null": True}, {"edge": "eu"}]}, ["left out"] * 4),
    ({"all": [{"field": "nowhere", "is_null": True}, {"edge": "us"}]}, ["delivered"] * 4),
    ({"all": [{"field": "land", "is_null": False}, {"field": "land", "equals": "RU"}]},
     ["delivered", "left out", "delivered", "delivered"]),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "expected"), CASES, ids=lambda part: json.dumps(part) if "in" in part else None)
def test_what_a_condition_does(both, condition, expected):
    """Leaves out where it holds, delivers where it does not, and a dead letter where nobody can tell."""
    records = [_record(), _record("RU", False, "NONE", 2), _record(None, number=3), _record("FR", None)]
    assert _became(both, _policy(condition), records) == expected


@pytest.mark.parametrize("fields", ["id: keep", "id: keep, 'consent.*': redact", "'**': redact"])
def test_a_field_is_asked_for_whatever_becomes_of_it(both, fields):
    """Dropped with its container, redacted or kept: the condition reads what was written."""
    policy = _policy({"field": "consent.marketing", "equals": "false"}, fields=fields)
    assert _became(both, policy, [_record(), _record(marketing=False)]) == ["delivered", "left out"]


@pytest.mark.parametrize("left", ["keep", "{pseudonymize: {key: customer, domain: d}}"])
@pytest.mark.parametrize("is_null", [True, False])
def test_a_field_that_is_null_in_every_record(both, left, is_null):
    """A record's fate depends on no other record of its batch, whatever becomes of the other fields."""
    policy = _policy({"field": "land", "is_null": is_null}, fields=f"id: {left}")
    without, beside = "left out" if is_null else "delivered", "delivered" if is_null else "left out"
    assert _became(both, policy, [_record(None)] * 2) == [without] * 2
    assert _became(both, policy, [_record(None), _record("DE")]) == [without, beside]


def test_any_of_several_conditions_suffices(both):
    """Also those of another pattern that matches the topic."""
    policy = _policy({"field": "id", "equals": "1"}, {"field": "id", "equals": "2"})
    policy += "  'ord.*':\n    fields: {'**': keep}\n    key: keep\n    drop_record: [{field: id, equals: 3}]\n"
    records = [_record(number=n) for n in range(1, 5)]
    assert _became(both, policy, records) == ["left out"] * 3 + ["delivered"]


def test_a_record_or_an_array_at_the_path_is_no_absent_value(both):
    """It is there, and no constant is equal to it: where one may stand, a value that is not a leaf decides nothing."""
    why = {"type": "record", "name": "Why", "fields": [{"name": "since", "type": "string"}]}
    answers = ["null", "string", why, {"type": "array", "items": "string"}]
    schema = {"type": "record", "name": "O", "fields": [{"name": "opt_out", "type": answers}]}
    held = [None, "yes", {"since": "2024"}, ["a"]]
    records = [both.value(schema, {"opt_out": one}) for one in held]
    open_, unknown = _policy({"field": "opt_out", "is_null": False}), Reason.UNDECIDED
    assert _became(both, open_, records) == [unknown, "left out", unknown, unknown]
    assert _became(both, _policy({"not": {"field": "opt_out", "is_null": True}}), records)[1:] == [
        "left out",
        unknown,
        unknown,
    ]
    assert _became(both, _policy({"field": "opt_out", "is_null": True}), records)[1:] == ["delivered", unknown, unknown]
    assert _became(both, _policy({"field": "opt_out", "equals": "yes"}), records)[1:] == ["left out", unknown, unknown]


@pytest.mark.parametrize("logical", ["string", "fixed"])
@pytest.mark.parametrize("question", ["equals", "in"])
def test_a_uuid_is_the_same_in_small_and_in_capital_letters(both, question, logical):
    """In the policy and in the record, as text or as sixteen bytes; other text is compared as it is written."""
    small = "e409a6c3-2823-406a-8d41-5163ebb7ad53"
    kind = {"type": "string"} if logical == "string" else {"type": "fixed", "name": "U", "size": 16}
    schema = {"type": "record", "name": "O", "fields": [{"name": "id", "type": kind | {"logicalType": "uuid"}}]}
    raw = UUID(small).bytes
    records = [raw] if logical == "fixed" else [b"\x48" + text.encode() for text in (small, small.upper())]
    values = [frame(both.edge.register("orders-value", json.dumps(schema)), one) for one in records]
    for constant in (small, small.upper()):
        asked = [constant, "of another form"] if question == "in" else constant
        assert _became(both, _policy({"field": "id", question: asked}), values) == ["left out"] * len(values)
    assert _became(both, _policy({"field": "id", "equals": small[:-1] + "4"}), values) == ["delivered"] * len(values)


@pytest.mark.parametrize(("is_null", "decided"), [(True, "delivered"), (False, "left out")])
def test_what_lies_in_a_list_of_json_decides_nothing(lab, is_null, decided):
    """Neither that it is there nor that it is not, wherever on the way the list stands; as in Avro."""
    lab.made = KernelStrip
    policy = _policy({"field": "consent.granted", "is_null": is_null}).replace(
        "    fields", "    value_format: json\n    fields"
    )
    lists = [b'{"consent":[]}', b'{"consent":[{}]}', b'{"consent":[{"granted":1}]}', b'[{"consent":1}]']
    assert _became(lab, policy, lists) == [Reason.UNDECIDED] * 4
    assert _became(lab, policy, [b'{"consent":{"granted":1}}', b'{"consent":{"granted":[]}}']) == [decided] * 2


def test_many_constants_cost_no_more_than_one():
    """They are read once for each type, and not for each value."""
    held = SideValues(np.arange(20_000), list(range(20_000)))
    column = ResultColumn([b""] * 20_000, side_values={"id": held})
    batch = Batch([None] * 20_000, [b""] * 20_000, [None] * 20_000)

    def cost(count):
        condition = _condition(field="id", **{"in": [str(number) for number in range(count)]})
        verdicts = Suppression([condition], "eu", "orders")
        assert len(verdicts.verdicts(batch, column).suppressed) == count
        return cpu_s(lambda: verdicts.verdicts(batch, column), rounds=3)

    assert cost(1000) < 5 * cost(1) + 0.01


def test_headers(both):
    """Several of a name count one by one; absent, null and no text decide nothing but whether they are there."""
    told = [None, [], [b"RU"], [b"DE", b"RU"], [b"DE"], [None], [b"\xff"], [b"DE", b"\xff"]]
    headers = [values if values is None else [("residency", value) for value in values] for values in told]
    records = [_record()] * len(headers)
    unknown = Reason.UNDECIDED
    asked = _became(both, _policy({"header": "residency", "equals": "RU"}), records, headers)
    assert asked == [unknown, unknown, "left out", "left out", "delivered", unknown, unknown, unknown]
    there = _became(both, _policy({"header": "residency", "is_null": True}), records, headers)
    assert there == ["left out"] * 2 + ["delivered"] * 3 + ["left out"] + ["delivered"] * 2


def test_an_edge_that_nobody_named_decides_nothing(both):
    """Fail closed: a strip that does not know where it is delivers nothing that could be asked to stay there."""
    assert _became(both, _policy({"edge": "eu"}), [_record()], edge=None) == [Reason.UNDECIDED]


def test_records_that_cannot_be_read(both):
    """They stay dead letters for their own reason, unless what can be read leaves them out."""
    schema_id = both.edge.register("orders-value", json.dumps(SCHEMA))
    bad = [b"", b"text", frame(schema_id, b""), frame(999, b"x")]
    reasons = [Reason.WRONG_MAGIC] * 2 + [Reason.UNDECODABLE, Reason.UNKNOWN_SCHEMA]
    for question in ({"is_null": True}, {"equals": "RU"}):
        assert _became(both, _policy({"field": "land", **question}), bad) == reasons
        assert _became(both, _policy({"not": {"field": "land", **question}}), bad) == reasons
    assert _became(both, _policy({"field": "land", "is_null": True}, {"edge": "eu"}), bad) == ["left out"] * 4


def test_tombstones(both):
    """They have no fields and pass, so that what was delivered can be deleted; an edge can keep them."""
    for condition in ({"field": "land", "is_null": True}, {"not": {"field": "land", "equals": "RU"}}):
        assert _became(both, _policy(condition), [None, _record("DE")])[0] == "delivered"
    assert _became(both, _policy({"edge": "eu"}), [None]) == ["left out"]


@pytest.mark.parametrize("headers", [None, [("residency", b"RU")], [("residency", b"DE")], [("residency", None)]])
def test_headers_leave_no_tombstone_out(both, headers):
    """Whoever deletes writes other headers, or none; what was delivered with the right ones has to go all the same."""
    for question in ({"is_null": True}, {"is_null": False}, {"equals": "RU"}, {"in": ["DE"]}):
        asked = {"header": "residency", **question}
        assert _became(both, _policy(asked, {"not": asked}), [None, _record()], [headers, headers])[0] == "delivered"
        assert _became(both, _policy({"all": [{"edge": "eu"}, asked]}), [None], [headers]) == ["delivered"]
        assert _became(both, _policy({"any": [{"edge": "eu"}, asked]}), [None], [headers]) == ["left out"]


def test_what_an_operator_fails_for_can_still_be_left_out(both):
    """The record was read, so that its conditions count; left out is not dead."""
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "at", "type": {"type": "int", "logicalType": "date"}}, {"name": "who", "type": "string"}]}  # fmt: skip
    plain = {**schema, "fields": [{"name": "at", "type": "int"}, schema["fields"][1]]}
    schema_id = both.edge.register("orders-value", json.dumps(schema))
    values = [frame(schema_id, both.body(plain, {"at": 2**31 - 1, "who": who})) for who in ("jane", "joe")]
    shift = "at: {date_shift: {entity: who, days: [1, 9], key: customer}}"
    policy = _policy({"field": "who", "equals": "jane"}, fields=shift)
    assert _became(both, policy, values) == ["left out", Reason.OPERATOR_FAILED]


def test_nothing_is_counted_of_what_is_left_out(both):
    """Removed fields, keys and headers count only where the rest of the record was delivered."""
    token = "{pseudonymize: {key: customer, domain: d}}"
    policy = _policy({"field": "id", "equals": "2"}, fields=f"land: {token}", key=token)
    values = [both.value(SCHEMA, _record(number=number)) for number in (1, 2, 1)]
    batch = Batch([b"k"] * 3, values, [[("residency", b"x"), ("lost", b"y")]] * 3)
    out = both.topic(policy).strip(batch)
    assert out.suppressed == {1}
    assert {label: count for label, count in out.counts.items() if label[0] in ("@key", "@headers", "land")} == {
        ("@key", "pseudonymize"): 2, ("@headers", "drop"): 2, ("land", "pseudonymize"): 2}  # fmt: skip
    alone = both.topic(policy).strip(Batch([b"k"] * 2, values[::2], [[("residency", b"x"), ("lost", b"y")]] * 2))
    assert out.counts == alone.counts


def _atoms():
    names = st.sampled_from(["a", "b"])
    question = st.sampled_from([{"is_null": True}, {"is_null": False}, {"equals": "1"}, {"in": ["1", "x"]}])
    field = st.builds(lambda name, asked: {"field": name, **asked}, names, question)
    header = st.builds(lambda asked: {"header": "h", **asked}, question)
    return st.one_of(field, header, st.sampled_from([{"edge": "eu"}, {"edge": ["us"]}, {"topic": "orders"}]))


CONDITIONS = st.recursive(
    _atoms(),
    lambda inner: st.one_of(
        st.builds(lambda parts: {"all": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"any": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"not": part}, inner),
    ),
    max_leaves=6,
)


def _holds(condition, world):
    """Kleene's logic once more: true, false, or None; `world` has no entry for what nobody knows."""
    if "all" in condition or "any" in condition:
        is_all = "all" in condition
        answers = [_holds(part, world) for part in condition["all" if is_all else "any"]]
        return not is_all if (not is_all) in answers else None if None in answers else is_all
    if "not" in condition:
        inner = _holds(condition["not"], world)
        return None if inner is None else not inner
    if "edge" in condition or "topic" in condition:
        return condition.get("edge") == "eu" or "topic" in condition
    name = condition.get("field") or "header"
    if name not in world:
        return None
    value = world[name]
    if "is_null" in condition:
        return (value is None) is condition["is_null"]
    if value is None:
        return None
    constants = condition["in"] if "in" in condition else [condition["equals"]]
    if isinstance(value, int):
        return True if str(value) in constants else None if "x" in constants else False
    return value in constants


@settings(max_examples=examples(200))
@given(st.lists(CONDITIONS, min_size=1, max_size=2))
@pytest.mark.slow
def test_conditions_against_their_definition(conditions):
    """Any conditions over any three-valued world: the same answer as Kleene's tables give one record at a time."""
    held = [1, 2, "1", "x", None, NOWHERE]
    worlds = list(product(held, held, ["1", "x", None]))
    held_by = {}
    for place, name in enumerate(("a", "b")):
        column = [world[place] for world in worlds]
        codes = [NOWHERE if v is NOWHERE else ABSENT if v is None else held.index(v) for v in column]
        held_by[name] = SideValues(np.array(codes), [v if v is not None else 0 for v in held])
    headers = [[("h", value.encode())] if value else None for *_, value in worlds]
    suppression = Suppression([_CONDITION.validate_python(condition) for condition in conditions], "eu", "orders")
    values = ResultColumn([b"x"] * len(worlds), side_values=held_by)
    suppressed, undecided = suppression.verdicts(Batch([None] * len(worlds), [b"x"] * len(worlds), headers), values)
    for place, (a, b, header) in enumerate(worlds):
        world = {name: value for name, value in (("a", a), ("b", b), ("header", header)) if value is not NOWHERE}
        answers = [_holds(condition, world) for condition in conditions]
        expected = True if True in answers else None if None in answers else False
        assert (place in suppressed, place in undecided) == (expected is True, expected is None), world


@pytest.mark.parametrize(
    "parts",
    [{}, {"field": "a"}, {"field": "a", "header": "b", "is_null": True}, {"field": "a", "equals": "1", "in": ["1"]},
     {"edge": "eu", "equals": "1"}, {"edge": []}, {"all": []}, {"all": [{}]}, {"not": {"edge": "eu"}, "edge": "us"},
     {"field": "a[]", "is_null": True}, {"field": "*", "is_null": True}, {"field": "", "is_null": True},
     {"field": "a", "in": []}, {"field": "a", "matches": "x"}, {"header": "", "is_null": True}],
)  # fmt: skip
def test_conditions_that_ask_nothing_or_too_much_are_refused(parts):
    """When the policy is read."""
    with pytest.raises(ValidationError):
        _condition(**parts)


def test_faults_have_their_lines():
    """And `drop_record` is no operator of a field."""
    topic = "policy: p\nversion: 1\ntopics:\n  orders:\n"
    with pytest.raises(ConfigError, match=r"policy:7: topics\.orders\.drop_record"):
        parse_policy(f"{topic}    drop_record:\n      - {{edge: eu}}\n      - {{field: a}}\n")
    with pytest.raises(ConfigError, match="stands under a topic"):
        parse_policy(f"{topic}    fields:\n      a: drop_record\n")


def test_conditions_are_part_of_the_hash():
    """Another condition is another policy; nothing written is the same as none."""
    one, other = (parse_policy(_policy({"field": "a", "equals": value})) for value in "xy")
    assert one.hash != other.hash
    empty = parse_policy("policy: p\nversion: 1\ntopics: {orders: {drop_record: }}\n")
    assert empty.hash == parse_policy("policy: p\nversion: 1\ntopics: {orders: {}}\n").hash


class _Log:
    """A transaction in memory; what is produced is there."""

    def __init__(self):
        self.records, self.letters = [], []

    def produce_all(self, _topic, _partition, records):
        """Whole records."""
        self.records += records

    def produce(self, _topic, _key, value, **_more):
        """One dead letter."""
        self.letters.append(json.loads(value))


@pytest.mark.parametrize("made", [ReferenceStrip, KernelStrip])
def test_conservation_through_delivery(lab, made):
    """Consumed = delivered + dead + suppressed, in the flow's counters and in what was produced."""
    lab.made = made
    strip = lab.topic(_policy({"field": "id", "in": ["1", "4"]}, {"field": "land", "equals": "RU"}))
    records = [_record("DE" if n % 3 else None, number=n) for n in range(10)]
    values = [*(lab.value(SCHEMA, record) for record in records), None, b"junk"]
    source = EdgePartition("eu", "orders", 0)
    plan = FlowPlan(
        source, LedgerRecord(0, "id", 0, 1, 0), False, "eu.orders", by_key=False, limits=TopicLimits(10_000)
    )
    flow, log = Flow(plan, plan.entry, persisted=True), _Log()
    delivery = Delivery(DeliveryPlan("h", "h.dead-letters", Cycles("h"), None), lambda _: strip, lambda *_: None)
    size = len(values)
    chunk = Chunk("orders", 0, [b"k"] * size, values, [None] * size, [0] * size, list(range(size)))
    delivery.deliver(log, flow, chunk, lambda: None, now_ms=0)
    entry = flow.cursor.entry
    delivered, dead, suppressed = entry.delivered, entry.dead, entry.suppressed
    assert (delivered, dead, suppressed) == (5, 5, 2)
    assert (len(log.records), len(log.letters)) == (delivered, dead)
    assert sorted(letter["reason"] for letter in log.letters) == ["undecided"] * 4 + ["wrong_magic"]
