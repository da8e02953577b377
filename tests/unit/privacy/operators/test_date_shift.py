"""`date_shift`: one entity, one shift, whatever the type of its dates and wherever it stands in the record."""

import base64
import hashlib
import hmac
import json
import uuid
from datetime import UTC, date, datetime, timedelta

import pytest
from pydantic import ValidationError

from aggregator.errors import Reason
from aggregator.privacy import operators
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.leaf import Paired
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.schema.wire import frame
from tests.reference.operators import LEAVES
from tests.unit.privacy.conftest import KEY, TODAY
from tests.unit.privacy.operators.single import DATE, TEXT, operator, rule, timestamp

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
DAYS = {"type": "int", "logicalType": "date"}
BORN = date(1984, 5, 6)


def _subkey():
    """RFC 5869, sections 2.2 and 2.3, for 32 bytes without a salt."""
    extracted = hmac.digest(bytes(32), base64.b64decode(KEY), hashlib.sha256)
    return hmac.digest(extracted, b"aggregator/1/date-shift\x01", hashlib.sha256)


def _shift(entity, low=-30, high=30):
    """The definition once more, from the standard library."""
    mac = hmac.digest(_subkey(), entity.encode(), hashlib.sha256)
    shifts = [days for days in range(low, high + 1) if days]
    return shifts[int.from_bytes(mac) % len(shifts)]


def _made(days=30, **more):
    return rule("date_shift", entity="who", days=days, key="customer", **more)


def _policy(shift="days: 30", **fields):
    lines = "".join(f'      "{path}": {operator}\n' for path, operator in fields.items())
    return (
        "policy: p\nversion: 1\ntopics:\n  orders:\n    fields:\n"
        f"      at: {{date_shift: {{entity: who, key: customer, {shift}}}}}\n{lines}"
    )


def _record(*fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": shape} for name, shape in fields]}


@pytest.mark.parametrize(
    ("entity", "days", "shift"), [("42", 30, 18), ("jane@example.com", 30, -20), ("Żółć", 400, 222)]
)
def test_vectors(lab, entity, days, shift):
    """These shifts are fixed for ever, under the key of the published token vectors."""
    assert _shift(entity, -days, days) == shift
    assert operator(_made(days), DATE, lab.keys)([Paired(1000, entity)]) == [1000 + shift]


@pytest.mark.parametrize("range_", [(-30, 30), (1, 7), (-9, -2), (0, 2), (-2, 0)])
def test_shifts_are_in_their_range_and_never_nothing(lab, range_):
    """Every day of the range comes up, both ends included, and a date never stays."""
    shifted = operator(_made(list(range_)), DATE, lab.keys)([Paired(0, str(n)) for n in range(2000)])
    assert set(shifted) == set(range(range_[0], range_[1] + 1)) - {0}
    assert shifted[:50] == [_shift(str(n), *range_) for n in range(50)]


def test_all_dates_of_one_entity_move_alike(lab):
    """Dates, timestamps of every unit, and ISO texts; the time of day goes."""
    days = _shift("42")
    day_of = {
        "timestamp-millis": 86_400_000,
        "local-timestamp-micros": 86_400_000_000,
        "timestamp-nanos": 86_400 * 10**9,
    }
    for name, ticks in day_of.items():
        assert operator(_made(), timestamp(name), lab.keys)([Paired(-1, "42")]) == [(days - 1) * ticks]
    moved = BORN + timedelta(days)
    for rest in ("", "T23:59:59.123+02:00", " 08:00", "T08"):
        made = operator(_made(), TEXT, lab.keys)([Paired(f" {BORN}{rest} ", 42)])
        assert made == [str(moved)], "an entity is the same as a number and as text"


@pytest.mark.parametrize(
    "text",
    ["", "jane", "1984-05-06 jane", "1984-05-06T10:00 jane@example.com", "1984-05-06x10:00", "19840506",
     "1984-02-30", "1984-05-06T25:00", "1984-05-0612:00", "06.05.1984"],
)  # fmt: skip
def test_text_that_is_no_date_is_redacted(lab, text):
    """Nothing but a date and a time of day passes beside the shift."""
    assert operator(_made(), TEXT, lab.keys)([Paired(text, "42")]) == ["[REDACTED]"]


def test_nobody_s_date_is_a_constant(lab):
    """Without the entity there is no shift: the type's own zero, as `redact` makes it."""
    assert operator(_made(), DATE, lab.keys)([Paired(1000, None)]) == [0]
    assert operator(_made(), timestamp("timestamp-micros"), lab.keys)([Paired(1000, None)]) == [0]
    assert operator(_made(), TEXT, lab.keys)([Paired("1984-05-06", None)]) == ["[REDACTED]"]


def test_the_entity_may_be_normalized(lab):
    """Two spellings of one address are one person."""
    made = operator(_made(normalize="email"), DATE, lab.keys)
    assert len(set(made([Paired(0, " Jane@Example.com"), Paired(0, "jane@example.com")]))) == 1


def test_types():
    """Dates, timestamps and text keep their type; nothing else is taken."""
    made = rule("date_shift", entity="who", days=30, key="customer")
    taken = {name for name, (leaf, _) in LEAVES.items() if operators.result(made, leaf) == leaf}
    assert taken == {"date", "timestamp", "local timestamp", "string"}
    assert all(operators.result(made, leaf) is None for name, (leaf, _) in LEAVES.items() if name not in taken)


@pytest.mark.parametrize(
    "more",
    [{"entity": "who[]"}, {"entity": "*"}, {"entity": "a.**"}, {"entity": "m.{key}"}, {"entity": ""}, {"days": 0},
     {"days": [3, 3]}, {"days": [5, 1]}, {"days": [0, 1]}, {"days": 10**6}, {"key": ""}, {"entity": None}],
)  # fmt: skip
def test_parameters_that_make_no_sense_are_refused(more):
    """When the policy is read: one field, and a range with room in it."""
    with pytest.raises(ValidationError):
        rule("date_shift", **{"entity": "who", "days": 30, "key": "customer", **more})


ENTITIES = {
    "text": ("string", "42", "42"),
    "number": ("long", 42, "42"),
    "one of two types": (["null", "string", "long"], 42, "42"),
    "symbol": ({"type": "enum", "name": "E", "symbols": ["JANE"]}, "JANE", "JANE"),
    "uuid": ({"type": "string", "logicalType": "uuid"}, uuid.UUID(int=10), str(uuid.UUID(int=10))),
}


@pytest.mark.parametrize("name", ENTITIES)
@pytest.mark.parametrize("fate", ["keep", "drop", "redact", "{pseudonymize: {key: customer, domain: d}}"])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.slow
def test_wherever_the_entity_stands_and_whatever_becomes_of_it(both, name, fate, is_first):
    """Before or behind the dates, kept, dropped, or changed itself: the shift is that of what was read."""
    shape, value, canonical = ENTITIES[name]
    fields = [("at", DAYS), ("who", shape), ("all", {"type": "array", "items": ["null", MILLIS]})]
    schema = _record(*(fields[1:] + fields[:1] if is_first else fields))
    policy = _policy(**{"who": fate, "all[]": "{date_shift: {entity: who, key: customer, days: 30}}"})
    times = [datetime(2026, 1, n, tzinfo=UTC) for n in (1, 2)]
    out = both.stripped(policy, schema, {"at": BORN, "who": value, "all": [times[0], None, times[1]]})[1]
    shift = timedelta(_shift(canonical))
    assert (out["at"], out["all"]) == (BORN + shift, [times[0] + shift, None, times[1] + shift])
    assert ("who" in out) is (fate != "drop")


def test_an_entity_further_down(both):
    """Through records that may be null, and through a type that holds itself: its own level counts, and no other."""
    node = {
        "type": "record",
        "name": "N",
        "fields": [
            {"name": "id", "type": ["null", "string"]},
            {"name": "at", "type": DAYS},
            {"name": "next", "type": ["null", "N"]},
        ],
    }
    policy = _policy(**{"**": "keep"}).replace("      at:", "      n.at:").replace("entity: who", "entity: n.id")
    schema = _record(("n", ["null", node]))
    inner = {"id": "joe", "at": BORN, "next": None}
    out = both.stripped(policy, schema, {"n": {"id": "42", "at": BORN, "next": inner}})[1]["n"][1]
    assert (out["id"], out["at"], out["next"][1]) == ("42", BORN + timedelta(_shift("42")), inner)
    assert both.stripped(policy, schema, {"n": {**inner, "id": None}})[1]["n"][1]["at"] == date(1970, 1, 1)
    assert both.stripped(policy, schema, {"n": None})[1] == {"n": None}


@pytest.mark.parametrize("shape", ["boolean", "double", {"type": "array", "items": "string"}, None])
def test_an_entity_that_is_nobody(both, shape):
    """Yes and no, floating point, several, or no such field: every date becomes the constant, and the plan says so."""
    values = {"boolean": True, "double": 1.5}
    fields = [("at", DAYS), *([("who", shape)] if shape else [])]
    record = {"at": BORN, "who": values.get(str(shape), ["x"])} if shape else {"at": BORN}
    out = both.stripped(_policy(who="keep"), _record(*fields), record)[1]
    assert out["at"] == date(1970, 1, 1)
    plan = compile_plan(json.dumps(_record(*fields)), value_scope(parse_policy(_policy()), "orders"), TODAY)
    assert ("is not there" in plan.rows[0].because) is (str(shape) not in values)


def test_null_stays_null(both):
    """No shift of nothing."""
    schema = _record(("at", ["null", DAYS]), ("who", "string"))
    assert both.stripped(_policy(), schema, {"at": None, "who": "x"})[1] == {"at": None}


@pytest.mark.parametrize("shape", [DAYS, MILLIS, "string"])
def test_a_date_beyond_its_type_is_a_dead_letter(both, shape):
    """Never wrapped around, never the input; the neighbour passes."""
    schema = _record(("at", shape), ("who", "string"))
    last, first = {"int": (2**31 - 1, 0), "long": (2**63 - 1, 0)}.get(
        shape["type"] if isinstance(shape, dict) else "", ("9999-12-31", "2000-01-01")
    )
    plain = _record(("at", shape["type"] if isinstance(shape, dict) else shape), ("who", "string"))
    schema_id = both.edge.register("orders-value", json.dumps(schema))
    values = [frame(schema_id, both.body(plain, {"at": at, "who": "42"})) for at in (last, first)]
    out = both.topic(_policy("days: [1, 9]")).strip(Batch([None] * 2, values, [None] * 2))
    assert [out.rejected.get(n) and out.rejected[n].reason for n in (0, 1)] == [Reason.OPERATOR_FAILED, None]
    assert out.values[0] is None


def test_an_entity_must_be_text_though_it_is_dropped(both):
    """It is looked at: what is no UTF-8 is refused, where a dropped text may otherwise be any bytes."""
    schema = _record(("at", DAYS), ("who", "string"))
    bad = frame(both.edge.register("orders-value", json.dumps(schema)), b"\0\2\xff")
    out = both.topic(_policy()).strip(Batch([None], [bad], [None]))
    assert out.rejected[0].reason is Reason.UNDECODABLE


@pytest.mark.parametrize("most", [None, 0])
def test_one_record_has_one_entity(both, monkeypatch, most):
    """In a type that holds itself a tag shifts the dates of all levels by the entity of the outermost, which the path
    names; also where a schema is so large that equal places share what happens to them.
    """
    if most is not None:
        monkeypatch.setattr("aggregator.privacy.plan.compile.MAXIMUM_PLACES", most)
    node = {**_record(("who", "string"), ("at", DAYS), ("next", ["null", "N"])), "name": "N"}
    node["fields"][1]["confluent:tags"] = ["BORN"]
    policy = (
        "policy: p\nversion: 1\ntags: {BORN: {date_shift: {entity: n.who, days: 30, key: customer}}}\n"
        "topics: {orders: {default: keep}}\n"
    )
    inner = {"next": None, "at": BORN, "who": "joe"}
    record = {"n": {"next": inner, "at": BORN, "who": "42"}, "m": inner}
    out = both.stripped(policy, _record(("n", node), ("m", "N")), record)[1]
    moved = BORN + timedelta(_shift("42"))
    assert (out["n"]["at"], out["n"]["next"][1]["at"], out["m"]["at"]) == (moved, moved, moved)
    assert (out["n"]["who"], out["n"]["next"][1]["who"]) == ("42", "joe")
