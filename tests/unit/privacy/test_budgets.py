"""Hostile input costs time and memory in proportion to its bytes: every operator, and every loop around them.

CPU time of this thread at a quiet machine's pace (`tests.growth`).
"""

import base64
import hashlib
import json
import os
import tracemalloc
import unicodedata
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator import budgets
from aggregator.config.secrets import key_ring
from aggregator.errors import DeadLetterError, HoldError, Reason, Unreachable
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.leaf import Leaf, Paired
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.operators import custom, result
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.privacy.policy.rules import operator_names
from aggregator.privacy.tokens.composition import composed
from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.avro import Kind, Logical
from aggregator.schema.registry import AnswerPending, Listing, UnknownSchema
from aggregator.schema.wire import frame
from tests.growth import cpu_s
from tests.reference.operators import KEY, ORACLE
from tests.reference.operators import LEAVES as ORACLE_LEAVES
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.exposure import topic
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import TODAY, MemoryRegistry, long_bytes
from tests.unit.privacy.operators.single import operator, rule, timestamp
from tests.unit.privacy.worst_inputs import DOUBLES, EXTREMES, FLOATS, PATTERNS, WIDE_EXTREMES, raws, texts

pytestmark = pytest.mark.slow

MICROSECONDS_PER_BYTE, TIMES_MEMORY = 20, 10
# What any call costs, however small its input.
FLOOR_S, FLOOR_BYTES = 0.002, 50_000
# Where a budget holds the size itself: composing takes a hundred times the room of a text, for a moment.
FLOORS = dict.fromkeys(("pseudonymize", "date_shift"), 200 * budgets.NORMALIZED_SIGNS.limit)
SIZE = 10_000
# A call that is traced takes ten times as long: of fewer bytes, over a lower floor, where no budget is the floor.
TRACED_SIZE = 2_500
# Each operator with the parameters that make it work most.
RULES = {name: one.worst for name, one in ORACLE.items() if one.worst}
DAYS = [timestamp("timestamp-millis"), timestamp("timestamp-nanos"), timestamp("local-timestamp-micros")]


def _leaves(size):
    """Every type of leaf, with the worst of so many bytes that it can hold."""
    return [
        (Leaf(Kind.STRING), texts(size)),
        (Leaf(Kind.BYTES), raws(size)),
        (Leaf(Kind.BYTES, Logical("decimal", 1000, 1000)), raws(size)),
        (
            Leaf(Kind.BYTES, Logical("decimal", 6, 2)),
            {**raws(size), **{f"short {k}": v[:512] for k, v in raws(size).items()}},
        ),
        *((Leaf(Kind.FIXED, logical, size), raws(size)) for logical in (None, Logical("decimal", 1000, 1000))),
        (Leaf(Kind.FIXED, Logical("duration"), 12), raws(12)),
        (Leaf(Kind.BOOLEAN), {"true": True, "false": False}),
        (Leaf(Kind.STRING, Logical("uuid")), texts(size)),
        (Leaf(Kind.ENUM, symbols=tuple(PATTERNS)), {name: name for name in PATTERNS}),
        (Leaf(Kind.INT), dict(zip(count(), EXTREMES, strict=False))),
        (Leaf(Kind.INT, Logical("date")), dict(zip(count(), EXTREMES, strict=False))),
        (Leaf(Kind.LONG), dict(zip(count(), WIDE_EXTREMES, strict=False))),
        *((leaf, dict(zip(count(), WIDE_EXTREMES, strict=False))) for leaf in DAYS),
        (Leaf(Kind.DOUBLE), dict(zip(count(), DOUBLES, strict=False))),
        (Leaf(Kind.FLOAT), dict(zip(count(), FLOATS, strict=False))),
    ]


def _size(value):
    return len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, bytes) else 8


def _peak(call):
    tracemalloc.start()
    try:
        made = call()
        return tracemalloc.get_traced_memory()[1], made
    finally:
        tracemalloc.stop()


def _answered(made, value):
    try:
        return made([value])
    except Exception:  # noqa: BLE001 - whatever it is, a dead letter
        return [None]


def _cases(name, size=SIZE):
    for parameters in RULES[name]:
        made = rule(name, **parameters)
        for leaf, values in _leaves(size):
            if result(made, leaf) is not None:
                act = operator(made, leaf, KEYS | {"wide": key_ring("env:WIDE_KEY_OF_THE_WALK")})
                for what, value in values.items():
                    pairs = [(value, value)] if name != "date_shift" else [(value, "x"), ("2020-01-01", value)]
                    for one, other in pairs:
                        yield (
                            f"{parameters} {leaf.kind} {what}",
                            act,
                            Paired(one, other) if name == "date_shift" else one,
                        )


@pytest.fixture(autouse=True, scope="module")
def worst():
    """A custom operator that answers what it was given, and a key of AES-SIV, which is twice as long as others."""
    before, custom._loaded = custom._loaded, lambda _name: lambda values: [str(value) for value in values]
    os.environ["WIDE_KEY_OF_THE_WALK"] = base64.b64encode(hashlib.sha512(b"the walk").digest()).decode()
    yield
    custom._loaded = before


def test_every_operator_is_in_the_walk():
    """A new operator comes with its worst input, and each is built and asked for something."""
    assert set(RULES) == set(operator_names()) - {Drop().operator, Keep().operator}
    assert {name for name in RULES if next(_cases(name), None) is None} == set()
    kinds = {leaf.kind for leaf, _ in _leaves(SIZE)}
    assert kinds == {leaf.kind for leaf, _ in ORACLE_LEAVES.values()}


def _weight(value):
    return sum(map(_size, value)) if isinstance(value, Paired) else _size(value)


@pytest.mark.search
@pytest.mark.parametrize("name", RULES)
def test_time_grows_with_the_bytes(name):
    """Twenty microseconds for a byte."""
    slow = []
    for what, act, value in _cases(name):
        bound_s = FLOOR_S + _weight(value) * MICROSECONDS_PER_BYTE * 1e-6
        seconds = cpu_s(lambda act=act, value=value: _answered(act, value), enough_s=bound_s)
        if seconds > bound_s:
            slow.append(f"{what}: {seconds / _weight(value) * 1e6:.1f} us per byte")
    assert slow == []


@pytest.mark.search
@pytest.mark.parametrize("name", RULES)
def test_memory_grows_with_the_bytes(name):
    """Ten times the memory of what goes in and comes out."""
    fat = []
    for what, act, value in _cases(name, SIZE if name in FLOORS else TRACED_SIZE):
        _answered(act, value)  # what is imported and made once
        peak, (made,) = _peak(lambda act=act, value=value: _answered(act, value))
        size = _weight(value) + (_size(made) if made is not None else 0)
        if peak > FLOORS.get(name, FLOOR_BYTES) + TIMES_MEMORY * size:
            fat.append(f"{what}: {peak:,} bytes for {size:,}")
    assert fat == []


@pytest.mark.search
def test_composing_by_the_square_is_what_the_walk_finds(monkeypatch):
    """The walk would find the library's own way: marks that are sorted by insertion."""
    monkeypatch.setattr("aggregator.privacy.tokens.tokens.composed", lambda text: unicodedata.normalize("NFC", text))
    text = "a" + "\u0301\u0316" * 8_000
    act = operator(rule("pseudonymize", **KEY, domain="d", normalize="casefold"), Leaf(Kind.STRING), KEYS)
    assert cpu_s(lambda: act([text])) > _size(text) * 1e-6


@given(st.text(st.characters(categories=["Mn", "Mc", "Me", "Lo", "Ll"]), max_size=40), st.integers(0, 300))
def test_composed_is_nfc(text, padding):
    """Sign for sign what the library makes of it, short or long."""
    for whole in (text + "x" * padding, "\u0316\u0301" * padding + text):
        assert composed(whole) == unicodedata.normalize("NFC", whole)


# The loops around the operators.

PII = "policy: p\nversion: 1\ntags: {{PII: {rule}}}\ntopics: {{orders: {{key: keep, default: keep{more}}}}}\n"
TOKEN = "{pseudonymize: {key: customer, domain: d}}"


def _items(count):
    schema = {"type": "array", "items": {"type": "string", "confluent:tags": ["PII"]}}
    return schema, (long_bytes(count) + bytes(count) if count else b"") + b"\0"


def _stripped(made, schema, bodies, rule=TOKEN, more=""):
    registry = MemoryRegistry()
    schema_id = registry.register("orders-value", json.dumps(schema))
    strip = topic(PII.format(rule=rule, more=more), registry, made=made)
    values = [frame(schema_id, body) for body in bodies]
    return strip.strip(Batch([None] * len(values), values, [None] * len(values)))


def test_one_byte_items_under_an_operator():
    """Four megabytes of them: dead letters where one record has too many, parts of the batch where all have many."""
    schema, body = _items(4_000_000)
    small = [_items(100_000)[1]] * 18
    _stripped(KernelStrip, schema, [_items(3)[1]])  # what is compiled and made once
    peak, out = _peak(lambda: _stripped(KernelStrip, schema, [body]))
    assert [rejection.reason for rejection in out.rejected.values()] == [Reason.TOO_LARGE]
    assert peak < TIMES_MEMORY * len(body)
    peak, out = _peak(lambda: _stripped(KernelStrip, schema, small))
    assert out.rejected == {}
    assert peak < TIMES_MEMORY * (sum(map(len, small)) + sum(map(len, out.values)))


def test_what_is_made_of_a_batch_is_bounded():
    """A long constant for each short item: refused before it is made, delivered in pieces, and dead alone."""
    registry = MemoryRegistry()
    schema, body = _items(60_000)
    schema_id = registry.register("orders-value", json.dumps(schema))
    strip = topic(PII.format(rule="{redact: {value: " + "x" * 1000 + "}}", more=""), registry, made=KernelStrip)
    batch = [frame(schema_id, body)] * 4

    def taken(values):
        return strip.strip(Batch([None] * len(values), values, [None] * len(values)))

    taken(batch[:1])
    before = strip.report()

    def refused():
        with pytest.raises(HoldError, match="bytes would be made of 4 records"):
            taken(batch)

    peak, _ = _peak(refused)
    assert peak < budgets.MADE_BYTES.limit * 1.5
    assert strip.report() == before, "what was refused counts nothing"
    assert not taken(batch[:1]).rejected
    alone = taken([frame(schema_id, _items(100_000)[1])])
    assert [one.reason for one in alone.rejected.values()] == [Reason.TOO_LARGE]


def test_what_operators_make_is_bounded_while_they_make_it():
    """Of short values that are all different, each a long one: refused before all of them are made, and dead alone."""
    registry = MemoryRegistry()
    items = [b"%05d" % number for number in range(60_000)]
    schema = _items(0)[0]
    schema_id = registry.register("orders-value", json.dumps(schema))
    rule = (
        f"{{regex_replace: {{pattern: '[0-9]', replacement: {'y' * 600}, reason: r, owner: o, expires: 2999-01-01}}}}"
    )
    strip = topic(PII.format(rule=rule, more=""), registry, made=KernelStrip)
    body = long_bytes(len(items)) + b"".join(long_bytes(len(one)) + one for one in items) + b"\0"
    small = long_bytes(5) + b"".join(long_bytes(len(one)) + one for one in items[:5]) + b"\0"

    def taken(*bodies):
        values = [frame(schema_id, one) for one in bodies]
        return strip.strip(Batch([None] * len(values), values, [None] * len(values)))

    taken(small)

    def refused():
        with pytest.raises(HoldError, match="bytes would be made of 2 records"):
            taken(body, small)
        (rejection,) = taken(body).rejected.values()
        assert rejection.reason is Reason.TOO_LARGE

    peak, _ = _peak(refused)
    assert peak < budgets.MADE_BYTES.limit * 1.5
    assert not taken(small).rejected


@pytest.mark.parametrize("made", [ReferenceStrip, KernelStrip])
def test_parts_are_the_whole(made, monkeypatch):
    """A batch that is stripped in parts gives what it gives as a whole, and counts the same; both ways agree."""
    schema = _items(0)[0]
    bodies = [_items(count)[1] for count in (0, 3, 70, 2, 9, 101, 1, 50, 100)] + [b"\x7f"]
    for name in ("BATCH_VALUES", "ASKED_VALUES"):
        small = getattr(budgets, name)._replace(limit=100)
        for module in ("aggregator.privacy.kernel.workspace", "tests.reference.reference"):
            monkeypatch.setattr(f"{module}.{name}", small, raising=False)
    out = _stripped(made, schema, bodies)
    reasons = {place: rejection.reason for place, rejection in out.rejected.items()}
    assert reasons == {5: Reason.TOO_LARGE, 9: Reason.UNDECODABLE}
    assert out.counts == {("[]", "pseudonymize"): 235}
    assert len({value for place, value in enumerate(out.values) if place not in reasons}) == 8


@pytest.mark.search
def test_json_parts():
    """Empty arrays by the megabyte: a dead letter before they are made; many records with many, a part at a time."""
    policy = "policy: p\nversion: 1\ntopics: {orders: {value_format: json, key: drop, fields: {'a': keep}}}\n"
    big = b'{"a": [' + b"[]," * 1_300_000 + b"1]}"
    some = [b'{"b": [' + b"[]," * 30_000 + b"1]}"] * 44
    for batch, reasons in (([big], {Reason.TOO_LARGE}), (some, set())):
        strip = topic(policy)
        peak, out = _peak(
            lambda strip=strip, batch=batch: strip.strip(Batch([None] * len(batch), batch, [None] * len(batch)))
        )
        assert {rejection.reason for rejection in out.rejected.values()} == reasons
        assert peak < TIMES_MEMORY * sum(map(len, batch)) + FLOOR_BYTES


@pytest.mark.parametrize(
    "key", [b'"\\ud800"', b'{"\\udfff": 1}', b"[" * 100_000, b"[[]," * 40_000, b"1" * 5000, b"1e999999999"]
)
@pytest.mark.parametrize("operator", ["keep", TOKEN])
def test_a_hostile_json_key_is_a_dead_letter_and_no_more(key, operator):
    """What is no text, or nests without end, raises nothing out of the strip; the next record arrives."""
    policy = f"policy: p\nversion: 1\ntopics: {{orders: {{key: {operator}, format: json}}}}\n"
    out = topic(policy).strip(Batch([key, b'"a"'], [None, None], [None, None]))
    assert {rejection.reason for rejection in out.rejected.values()} <= {Reason.BAD_KEY}
    assert 1 not in out.rejected
    assert 0 in out.rejected


class FarRegistry(MemoryRegistry):
    """A registry at so many seconds, with the budget of the real one; its time is its own."""

    def __init__(self):
        super().__init__()
        self.now_s, self.asked, self.budget = 0.0, 0, AskingBudget()

    def schema(self, schema_id, **_):
        if schema_id in self.by_id():
            return super().schema(schema_id)
        self.ask(1)
        raise UnknownSchema(schema_id, "far")

    def listing(self, _requester, _is_own, **_):
        self.ask(3)
        return Listing("far", frozenset({1, *self.by_id()}))

    def ask(self, questions):
        """They take their time."""
        if not self.budget.left_s(self.now_s, "t"):
            raise AnswerPending("far")
        self.now_s, self.asked = self.now_s + questions * 0.02, self.asked + questions
        self.budget.spend(self.now_s, questions * 0.02, "t")

    def by_id(self):
        """Ids that are known."""
        return range(1, len(self.texts) + 1)


@pytest.mark.parametrize("unknown", [600, 10_000])
@pytest.mark.parametrize("backoff_s", [1.0, 30.0])
def test_a_batch_of_unknown_ids_passes(unknown, backoff_s):
    """However far the registry is and however long a flow waits between two tries, it is through after some of them."""
    registry = FarRegistry()
    policy = "policy: p\nversion: 1\ntopics: {orders: {key: drop}}\n"
    strip = topic(policy, registry, made=KernelStrip, now_s=lambda: registry.now_s)
    batch = Batch([None] * unknown, [frame(1000 + n, b"") for n in range(unknown)], [None] * unknown)
    for _ in range(20):
        began_s = registry.now_s
        try:
            out = strip.strip(batch)
            break
        except Unreachable:
            assert registry.now_s - began_s < 1, "a flood holds up a slot for a short time"
            registry.now_s += backoff_s
    assert {rejection.reason for rejection in out.rejected.values()} == {Reason.UNKNOWN_SCHEMA}
    assert len(out.rejected) == unknown
    assert registry.asked <= budgets.UNKNOWN_IDS.limit + 20


# Schemas.


def _record(name, *types, tags=()):
    fields = [
        {"name": f"f{n}", "type": one, **({"confluent:tags": list(tags[n])} if tags else {})}
        for n, one in enumerate(types)
    ]
    return {"type": "record", "name": name, "fields": fields}


def _named(kind, count):
    more = {"enum": {"symbols": ["A"]}, "fixed": {"size": 1}, "record": {"fields": [{"name": "v", "type": "int"}]}}[
        kind
    ]
    return [{"type": kind, "name": f"N{n}", **more} for n in range(count)]


def _chain(count):
    """Behind so many fields that places are shared: a chain of records, each of which holds the one before."""
    filler = [{"name": f"x{n}", "type": "int"} for n in range(20_100)]
    links = [{"name": f"l{n}", "type": _record(f"L{n}", f"L{n - 1}" if n else "int")} for n in range(count)]
    return {"type": "record", "name": "R", "fields": filler + links}


SCHEMAS = {
    "distinct tags on a recursive type": lambda: _record(
        "R", *[["null", "R"]] * 45, tags=[(f"t{n}",) for n in range(45)]
    ),
    "tags above everything": lambda: {
        "type": "array",
        "items": _record("R", *["int"] * 15_000),
        "confluent:tags": [f"t{n}" for n in range(60_000)],
    },
    "long names on long paths": lambda: _record(
        "R",
        *["int"] * 10_000,
        {"type": "record", "name": "S", "fields": [{"name": "n" * 300_000, "type": _record("T", *["int"] * 10_000)}]},
    ),
    "a union of enums": lambda: _named("enum", 12_000),
    "a union of fixed": lambda: _named("fixed", 12_000),
    "a union of records": lambda: _named("record", 6_000),
    "types that double": lambda: _doubling(60),
    "a chain of shared records": lambda: _chain(5_000),
    "many fields": lambda: _record("R", *["int"] * 20_000),
    "a scale": lambda: {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 20_000_000},
    "a precision": lambda: {"type": "bytes", "logicalType": "decimal", "precision": 20_000_000, "scale": 1},
    "one name many times": lambda: _doubling(12),
    "defaults of defaults": lambda: _defaults_of_defaults(40),
    "a default that may be either record": lambda: _either_record(40),
    "a default that is none of many": lambda: {
        "type": "record",
        "name": "R",
        "fields": [{"name": "f", "type": {"type": "array", "items": _named("enum", 5_000)}, "default": ["B"] * 50_000}],
    },
}


def _defaults_of_defaults(count):
    """Records that each hold the next one twice, where nothing is said."""
    inner = {"type": "record", "name": f"R{count}", "fields": [{"name": "a", "type": "int", "default": 1}]}
    for n in reversed(range(count)):
        fields = [{"name": "a", "type": inner, "default": {}}, {"name": "b", "type": f"R{n + 1}", "default": {}}]
        inner = {"type": "record", "name": f"R{n}", "fields": fields}
    return inner


def _either_record(depth):
    """A default that fits neither of two records, which is seen at its very bottom."""
    second = {"type": "record", "name": "B", "fields": [{"name": "c", "type": ["A", "B"]}]}
    first = {"type": "record", "name": "A", "fields": [{"name": "c", "type": ["A", second]}]}
    default = 1
    for _ in range(depth):
        default = {"c": default}
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": [first, "B"], "default": default}]}


def _doubling(count):
    inner = _record("R0", "int")
    for n in range(1, count):
        inner = _record(f"R{n}", inner, f"R{n - 1}", tags=[(f"t{n}",), ()])
    return inner


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["{default: keep}", f"{{default: keep, fields: {{'**.f1': {TOKEN}}}}}"])
@pytest.mark.parametrize("name", SCHEMAS)
def test_a_hostile_schema(name, policy):
    """A plan, or a refusal by name: never a minute, never the memory of the machine."""
    text = json.dumps(SCHEMAS[name]())
    scope = value_scope(parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {policy}}}\n"), "orders")

    def work():
        try:
            compile_plan(text, scope, TODAY)
        except DeadLetterError as error:
            assert error.reason is Reason.SCHEMA_REFUSED

    assert cpu_s(work, enough_s=8) < 8
