"""The structural walk: nothing outside the record is looked at, and no work without bytes."""

import json
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import Reason
from aggregator.privacy.batch.guard import MAXIMUM_DEPTH, Malformed, weightless_nodes
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import Action, PlanNode
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.schema.avro import Kind
from tests.growth import cpu_s, grows_linearly
from tests.reference.guard import Guard
from tests.unit.privacy.shapes import Values, long_bytes, schemas

pytestmark = pytest.mark.slow

KEEP_ALL = "policy: p\nversion: 1\ntopics: {t: {default: keep}}\n"


def _guard(schema, policy=KEEP_ALL):
    return Guard(compile_plan(json.dumps(schema), value_scope(parse_policy(policy), "t"), date(2026, 11, 1)))


def _reason(guard, body):
    try:
        guard.check(body)
    except Malformed as error:
        return error.reason
    return None


@given(st.data())
def test_what_is_well_formed_passes_and_every_cut_of_it_does_not(data):
    """Bytes of a drawn value pass; a byte more, and every shorter prefix, do not."""
    schema = data.draw(schemas())
    guard = _guard(schema)
    body = Values(data.draw, schema).write(schema)
    guard.check(body)
    assert _reason(guard, body + b"\0") is Reason.UNDECODABLE
    for end in range(len(body)):
        assert _reason(guard, body[:end]) is Reason.UNDECODABLE


@given(st.data())
def test_mutated_bytes_pass_or_are_refused(data):
    """Whatever the bytes are, the walk ends with an answer."""
    schema = data.draw(schemas())
    guard = _guard(schema)
    body = bytearray(Values(data.draw, schema).write(schema))
    for _ in range(data.draw(st.integers(1, 4))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    assert _reason(guard, bytes(body)) in (None, Reason.UNDECODABLE, Reason.TOO_DEEP)


LIST = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}


def test_nesting_is_bounded():
    """5 kB of nested record, which end a process in C, are TOO_DEEP; what is just deep enough passes."""
    guard = _guard(LIST)
    assert _reason(guard, b"\2" * 5000) is Reason.TOO_DEEP
    assert _reason(guard, b"\2" * 5000 + b"\0") is Reason.TOO_DEEP
    deepest = MAXIMUM_DEPTH // 2 - 1
    assert _reason(guard, b"\2" * deepest + b"\0") is None
    assert _reason(guard, b"\2" * (deepest + 1) + b"\0") is Reason.TOO_DEEP
    endless = {"type": "record", "name": "N", "fields": [{"name": "next", "type": "N"}]}
    assert _reason(_guard(endless), b"") is Reason.TOO_DEEP


ARRAY = {"type": "array", "items": "int"}


@pytest.mark.parametrize(
    ("schema", "body", "fine"),
    [
        (ARRAY, long_bytes(-2) + long_bytes(2) + b"\2\4\0", True),
        (ARRAY, b"\2\2\2\4\0", True),
        (ARRAY, long_bytes(-2) + long_bytes(3) + b"\2\4\0", False),
        (ARRAY, long_bytes(-2) + long_bytes(-2) + b"\2\4\0", False),
        (ARRAY, long_bytes(-2) + long_bytes(2**62) + b"\2\4\0", False),
        (ARRAY, long_bytes(-(2**63)) + long_bytes(2) + b"\2\4\0", False),
        (ARRAY, long_bytes(2**62), False),
        ({"type": "map", "values": "int"}, long_bytes(-1) + long_bytes(3) + b"\2a\2\0", True),
        ("boolean", b"\2", False),
        ("int", b"\xfe\xff\xff\xff\x0f", True),
        ("int", b"\xfe\xff\xff\xff\x1f", False),
        ("int", b"\x80\x80\x80\x80\x80\x00", False),
        ("long", b"\xff" * 9 + b"\x01", True),
        ("long", b"\xff" * 9 + b"\x02", False),
        ("long", b"\xff" * 12, False),
        ("string", b"\2\xff", False),
        ("string", b"\x06\xed\xa0\x80", False),
        ("bytes", b"\2\xff", True),
        ("bytes", b"\1", False),
        ("bytes", long_bytes(2**62), False),
        (["null", "int"], b"\4\0", False),
        (["null", "int"], b"\1\0", False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2", False),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\1", False),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", True),
        ({"type": "record", "name": "R", "fields": []}, b"", True),
        ({"type": "record", "name": "R", "fields": []}, b"x", False),
    ],
)
def test_the_specification_decides(schema, body, fine):
    """Blocks with sizes, numbers at their limits, indices, text: what is allowed passes, everything else does not."""
    assert _reason(_guard(schema), body) is (None if fine else Reason.UNDECODABLE)


WEIGHTLESS = [
    "null",
    {"type": "record", "name": "R", "fields": []},
    {"type": "record", "name": "R", "fields": [{"name": "a", "type": "null"}]},
    {"type": "fixed", "name": "F", "size": 0},
]


@pytest.mark.parametrize("items", WEIGHTLESS)
def test_items_without_bytes_are_bounded(items):
    """An array of nulls costs nothing on the wire; a few pass, a trillion, or many blocks of them, do not."""
    guard = _guard({"type": "array", "items": items})
    assert _reason(guard, long_bytes(100) + b"\0") is None
    for body in (long_bytes(2**40) + b"\0", (long_bytes(1000) * 100) + b"\0"):
        assert _reason(guard, body) is Reason.UNDECODABLE
        assert cpu_s(lambda body=body: _reason(guard, body), enough_s=0.5) < 0.5


def test_records_that_multiply_without_bytes_are_bounded():
    """Sixty records that each hold the next one twice have no bytes and 2**60 parts."""
    inner = "null"
    for n in range(60):
        again = f"R{n - 1}" if n else "null"
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": again}]
        inner = {"type": "record", "name": f"R{n}", "fields": fields}
    assert _reason(_guard(inner), b"") is Reason.UNDECODABLE


def test_dropped_text_may_be_any_bytes():
    """Only text that travels on, or that an operator reads, must be UTF-8."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "string"}, {"name": "y", "type": "int"}]}
    key = "{pseudonymize: {key: k, domain: d}}"
    for rule, reason in [("keep", Reason.UNDECODABLE), (key, Reason.UNDECODABLE), ("drop", None), ("redact", None)]:
        guard = _guard(schema, f"policy: p\nversion: 1\ntopics: {{t: {{fields: {{x: {rule}, y: keep}}}}}}\n")
        assert _reason(guard, b"\2\xff\2") is reason


def test_what_has_no_bytes_is_found_in_time_with_the_places():
    """A chain of records that end in nothing, whichever way their numbers run: each place is looked at once."""

    def chain(count):
        links = [PlanNode(Kind.RECORD, Action.KEEP, "", number, (number + 1,)) for number in range(count)]
        return [*links, PlanNode(Kind.NULL, Action.KEEP, "", count)]

    assert weightless_nodes(chain(100)) == set(range(101))
    assert grows_linearly(lambda count: weightless_nodes(chain(count)), 1000)
