"""Bytes that nobody honest writes: the kernel refuses what the reference refuses, for the same reason, and lives."""

import json
import time

import pytest

from aggregator.errors import Reason
from aggregator.privacy.batch.guard import MAXIMUM_DEPTH, MAXIMUM_WEIGHTLESS
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.schema.wire import frame
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.kernel.differential import KEYS
from tests.unit.privacy.kernel.drawing import TODAY, MemoryRegistry, long_bytes

TOKEN = "{pseudonymize: {key: customer, domain: d}}"
KEEP = "default: keep"
DROP = "fields: {kept: keep}"
HASH = f"fields: {{'**': {TOKEN}}}"
CHAIN = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
TREE = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}
NOTHING = {"type": "record", "name": "E", "fields": []}


def _record(**fields):
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": kind} for name, kind in fields.items()]}


def _array(items):
    return {"type": "array", "items": items}


def _both(schema, topic, bodies):
    """The kernel's result, after the reference's proved the same."""
    registry = MemoryRegistry()
    schema_id = registry.register("v", json.dumps(schema))
    values = [frame(schema_id, body) for body in bodies]
    batch = Batch([None] * len(values), values, [None] * len(values))
    out = []
    for made in (ReferenceStrip, KernelStrip):
        strip = made(
            policy=parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{{topic}}}}}\n"), edge_topic="orders",
            central_topic="eu.orders", edge_registry=registry, central_registry=MemoryRegistry(), key_rings=KEYS,
            today=lambda: TODAY, now_s=time.monotonic,
        )  # fmt: skip
        out.append(strip.strip(batch))
    assert out[0] == out[1]
    return out[1]


def _reasons(schema, topic, bodies):
    rejected = _both(schema, topic, bodies).rejected
    return [rejected[index].reason if index in rejected else None for index in range(len(bodies))]


@pytest.mark.parametrize("topic", [KEEP, DROP, HASH])
def test_nesting_is_bounded(topic):
    """As deep as the guard allows passes, one deeper is TOO_DEEP, be it 5 kB or 5 MB of nesting, kept or dropped."""
    deepest = MAXIMUM_DEPTH // 2 - 1
    bodies = [b"\2" * n + b"\0" for n in (0, deepest - 1, deepest, deepest + 1, 5_000, 5_000_000)] + [b"\2" * 5_000]
    deep = Reason.TOO_DEEP
    assert _reasons(CHAIN, topic, bodies) == [None, None, None, deep, deep, deep, deep]
    inside = _reasons(_record(kept="int", x=CHAIN), topic, [b"\0" + body for body in bodies])
    assert inside == [None, None, deep, deep, deep, deep, deep], "the outer record is a level too"
    assert _reasons(TREE, topic, [b"\2" * 5_000, b"\1\0" * 5_000])[0] is deep


def _line(letter, inner):
    for number in range(45):
        fields = [{"name": "f", "type": ["null", inner]}]
        inner = {"type": "record", "name": f"{letter}{number}", "fields": fields}
    return inner


def test_depth_without_recursion():
    """Long lines of records, one hung below the other by its name, are as deep as they are."""
    schema = _record(a=_line("A", "int"), b=_line("B", "A44"))
    bodies = [
        b"\2" * 45 + b"\6" + rest for rest in (b"\0", b"\2" * 45 + b"\0", b"\2" * 61 + b"\0", b"\2" * 90 + b"\6", b"")
    ]
    deep = Reason.TOO_DEEP
    assert _reasons(schema, KEEP, bodies) == [None, None, None, deep, Reason.UNDECODABLE]


@pytest.mark.parametrize("topic", [KEEP, DROP, HASH])
@pytest.mark.parametrize("items", ["null", "int", "string", NOTHING, {"type": "fixed", "name": "F", "size": 0}])
def test_counts_are_bounded_by_the_bytes_that_are_there(topic, items):
    """No count makes the kernel work for what is not there; what has no bytes has an allowance."""
    schema = _record(x=_array(items), y=_array(_array(items)))
    heads = [long_bytes(n) for n in (2**62, 2**63 - 1, -1, -(2**63), 10, MAXIMUM_WEIGHTLESS, MAXIMUM_WEIGHTLESS + 1)]
    sizes = [b"", *map(long_bytes, (0, 1, -1, 2**63 - 1, -(2**63)))]
    bodies = [head + size + b"\0" * rest for head in heads for size in sizes for rest in (1, 2, 12)]
    nested = long_bytes(3) + (long_bytes(1000) + b"\0") * 3 + b"\0"
    assert len(_reasons(schema, topic, [*bodies, b"\0" + nested])) == len(bodies) + 1


EVERYTHING = _record(
    s="string", b="bytes", i="int", l="long", f="float", d="double", t="boolean",
    e={"type": "enum", "name": "E", "symbols": ["A", "B"]}, x={"type": "fixed", "name": "X", "size": 3},
    u=["null", "string", "long"], a=_array(["null", "int"]), m={"type": "map", "values": "string"}, n=CHAIN,
)  # fmt: skip
WHOLE = (
    b"\x08\xc5\xbb\xc3\xb3" + b"\4\xff\0" + b"\x80\x01" + long_bytes(-(2**63)) + b"\1\2\3\4"
    + b"\1\2\3\4\5\6\7\x08" + b"\1" + b"\2" + b"abc" + b"\2\4hi" + b"\4\2\x0e\0\0" + b"\1\x0a\2k\4vv\0" + b"\2\2\0"
)  # fmt: skip


@pytest.mark.parametrize("topic", [KEEP, DROP, HASH, "default: redact", "default: nullify"])
@pytest.mark.slow
def test_every_cut_and_every_changed_byte(topic):
    """A record cut at each byte, longer by each byte, or with each byte changed to any other."""
    cuts = [WHOLE[:n] for n in range(len(WHOLE))]
    changed = [WHOLE[:n] + bytes([byte]) + WHOLE[n + 1 :] for n in range(len(WHOLE)) for byte in range(0, 256, 5)]
    reasons = _reasons(EVERYTHING, topic, [WHOLE, *cuts, *(WHOLE + bytes([byte]) for byte in range(256)), *changed])
    assert reasons[0] is None
    assert set(reasons[1 : len(cuts) + 257]) == {Reason.UNDECODABLE}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["int", "long"])
def test_numbers_have_a_longest_form(kind):
    """Five bytes for 32 bits and ten for 64, none of them overflowing; shorter than needed is another number."""
    bodies = [b"\x80" * n + bytes([last]) for n in range(12) for last in range(128)]
    bodies += [b"\xff" * n + bytes([last]) for n in range(12) for last in range(128)]
    for topic in (KEEP, DROP, HASH):
        assert None in _reasons(_record(kept="int", x=kind), topic, [b"\0" + body for body in bodies])
        _reasons(_record(kept="int", x=kind), topic, [b"\0" + body + b"\0" * 9 for body in bodies])


def test_needless_length_is_taken_out():
    """Padded numbers, sizes, indices and counts are written in their shortest form, as the reference does."""
    schema = _record(l="long", s="string", u=["null", "long"], a=_array("long"), e=EVERYTHING["fields"][7]["type"])
    padded = b"\x82\x00" + b"\x82\x80\x00a" + b"\x82\x00\x82\x00" + b"\x82\x00\x82\x00\x80\x00" + b"\x82\x80\x00"
    (value,) = _both(schema, KEEP, [padded]).values
    assert value[5:] == b"\2" + b"\2a" + b"\2\2" + b"\2\2\0" + b"\2"


def test_counts_of_refused_records_are_taken_back():
    """A record that is refused at its last byte has counted nothing."""
    schema = _record(a=_array({**_record(kept="int", x="string"), "name": "Item"}), end="int")
    body = b"\4\0\2a\0\2b\0"
    out = _both(schema, "fields: {'a[].kept': keep, end: keep}", [body + b"\0", body, body + b"\0\0"])
    assert out.counts == {("a[].x", "drop"): 2}
    assert len(out.rejected) == 2
