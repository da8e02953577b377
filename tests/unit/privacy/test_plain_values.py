"""Values of plain text and of bytes: one rule is about all of a value, and without one that holds nothing is left."""

import itertools
import json
import time
from datetime import date

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from aggregator import budgets
from aggregator.bytes_column import BytesColumn
from aggregator.errors import ConfigError, HoldError, Reason
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.rules import Rule
from aggregator.privacy.topic import plain_values
from aggregator.schema.memory import MemoryRegistry
from tests.reference import plain
from tests.reference.reference import ReferenceStrip
from tests.unit.privacy.conftest import TODAY
from tests.unit.privacy.kernel.differential import KEYS

WHY = "reason: r, owner: o, expires: 2030-01-01"
KEEP = f"{{keep: {{{WHY}}}}}"
SCRUB = f"{{scrub_text: {{{WHY}}}}}"
TOKEN = "{pseudonymize: {key: customer, domain: d}}"
JANE = b"v1_558273fa650c47eca9298f5d4fa0aa71"


def _strip(form, value="", more="", *, made=KernelStrip, others="", today=lambda: TODAY):
    rule = f", value: {value}" if value else ""
    text = f"policy: p\nversion: 1\ndefault: redact\ntopics: {{orders: {{value_format: {form}{rule}{more}}}{others}}}\n"
    return made(
        policy=parse_policy(text), edge_topic="orders", central_topic="eu.orders", edge_registry=MemoryRegistry(),
        central_registry=None, key_rings=KEYS, today=today, now_s=time.monotonic, edge="eu",
    )  # fmt: skip


def _batch(values):
    return Batch([None] * len(values), values, [None] * len(values))


CASES = [
    ("text", "", b"jane", b""),
    ("text", "drop", b"jane", b""),
    ("text", KEEP, "jane Żółć".encode(), "jane Żółć".encode()),
    ("text", SCRUB, b"to jane@example.com from 10.1.2.3", b"to [EMAIL] from [IP]"),
    ("text", TOKEN, b"jane", JANE),
    ("text", "redact", b"jane", b"[REDACTED]"),
    ("text", f"{{truncate: {{length: 2, {WHY}}}}}", "Żółć".encode(), "Żó".encode()),
    ("text", f"{{regex_replace: {{pattern: '[0-9]+', replacement: n, {WHY}}}}}", b"id 77", b"id n"),
    ("text", "{mask: {keep_last: 2}}", b"1234", b"**34"),
    ("bytes", "", b"\0\xffjane", b""),
    ("bytes", "drop", b"\0\xff", b""),
    ("bytes", KEEP, b"\0\0\0\0\1\xff", b"\0\0\0\0\1\xff"),
    ("bytes", TOKEN, b"jane", JANE),
    ("bytes", "redact", b"jane", b""),
    ("bytes", f"{{truncate: {{length: 2, {WHY}}}}}", b"\xff\xfe\xfd", b"\xff\xfe"),
]


@pytest.mark.parametrize(("form", "value", "given_", "left"), CASES)
@pytest.mark.parametrize("made", [KernelStrip, ReferenceStrip])
def test_what_is_left(form, value, given_, left, made):
    """By the rule alone; a null stays one, and an empty value is empty."""
    out = _strip(form, value, made=made).strip(_batch([given_, None, given_]))
    assert (list(out.values), out.rejected) == ([left, None, left], {})


@pytest.mark.parametrize("made", [KernelStrip, ReferenceStrip])
def test_nothing_is_left_of_a_value_once_a_rule_of_one_pattern_has_ended(made):
    """The rule of another pattern that matches the topic does not take its place."""
    others = f', "order.": {{value_format: text, value: {{truncate: {{length: 3, {WHY}}}}}}}'
    days = iter([date(2027, 6, 1), date(2027, 6, 2)])
    ends = "{keep: {reason: r, owner: o, expires: 2027-06-02}}"
    strip = _strip("text", ends, others=others, made=made, today=lambda: next(days))
    assert [list(strip.strip(_batch([b"jane"])).values) for _ in range(2)] == [[b"jan"], [b""]]


@pytest.mark.parametrize("value", ["", "drop", KEEP, SCRUB, TOKEN, "redact"])
@pytest.mark.parametrize("bad", [b"\xff", b"jane\xc3", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf5\x80\x80\x80"])
def test_text_that_is_none_is_a_dead_letter(value, bad):
    """Whatever the rule; its neighbours pass, also where two halves of a character lie beside each other."""
    out = _strip("text", value).strip(_batch([b"ok", bad, b"\xa9", b"ok"]))
    assert {place: one.reason for place, one in out.rejected.items()} == dict.fromkeys((1, 2), Reason.UNDECODABLE)
    assert [value is None for value in out.values] == [False, True, True, False]


def test_what_nobody_declared_as_text_passes_nothing():
    """Such a topic is read as Avro: each value is a dead letter, and none is left."""
    policy = parse_policy("policy: p\nversion: 1\ntopics: {orders: {default: keep}}\n")
    registry = MemoryRegistry()
    strip = KernelStrip(policy=policy, edge_topic="orders", central_topic="eu.orders", edge_registry=registry,
                        central_registry=registry, key_rings={}, today=lambda: TODAY, now_s=time.monotonic)  # fmt: skip
    out = strip.strip(_batch([b"jane", b"\0jane at home"]))
    assert (list(out.values), len(out.rejected)) == ([None, None], 2)


@pytest.mark.parametrize("day", [date(2029, 12, 31), date(2030, 1, 1)])
@pytest.mark.parametrize("value", [KEEP, SCRUB])
def test_a_rule_that_has_ended_leaves_nothing(day, value):
    """From its day on, also in a hub that runs on."""
    days = iter([date(2029, 12, 30), day])
    strip = _strip("text", value, today=lambda: next(days))
    assert list(strip.strip(_batch([b"jane"])).values) == [b"jane"]
    assert list(strip.strip(_batch([b"jane"])).values) == [b"jane" if day.year == 2029 else b""]


PATTERNS = [
    (", 'o.*': {value_format: text, value: drop}", b""),
    (", 'o.*': {value_format: text}", b""),
    (f", 'o.*': {{value_format: text, value: {TOKEN}}}", JANE),
    (", 'o.*': {headers: [a]}", b"jane"),
    (", 'o.*': {fields: {'**': drop}}", b""),
    (", 'o.*': {fields: {'**': nullify}}", b""),
    (", 'o.*': {fields: {'**': keep}}", b"jane"),
    (", 'o.*': {fields: {'a.**': drop}}", b"jane"),
    (", 'o.*': {default: keep}", b"jane"),
]


@pytest.mark.parametrize(("others", "left"), PATTERNS)
def test_of_several_patterns_the_most_restrictive_holds(others, left):
    """A pattern without a format says nothing of the value, unless it closes every place of any value."""
    assert list(_strip("text", KEEP, others=others).strip(_batch([b"jane"])).values) == [left]


def test_no_pattern_for_fields_opens_a_text():
    """Neither a wildcard nor a default, nor a tag: only `value`."""
    for others in (", 'o.*': {fields: {'**': keep}}", ", 'o.*': {default: keep}"):
        assert list(_strip("text", others=others).strip(_batch([b"jane"])).values) == [b""]


REFUSED = [
    ("value: drop", "stands beside `value_format: text`"),
    ("value_format: json, value: drop", "stands beside `value_format: text`"),
    ("value_format: text, value: keep", "`value` takes keep with these parameters only with"),
    ("value_format: text, value: scrub_text", "`value` takes scrub_text with these parameters only with"),
    ("value_format: text, value: {truncate: {length: 3}}", "`value` takes truncate"),
    ("value_format: text, value: nullify", "write `drop`, which leaves it empty"),
    ("value_format: text, value: {bucket: {size: 10}}", "bucket with these parameters does not make a text of a text"),
    ("value_format: text, value: {pseudonymize: {key: k, domain: d, encode: bytes}}", "does not make a text"),
    ("value_format: text, value: {date_shift: {key: k, entity: a, days: 3}}", "date_shift with these parameters"),
    (f"value_format: bytes, value: {SCRUB}", "scrub_text with these parameters does not make bytes of bytes"),
    ("value_format: text, fields: {a: keep}", "text has no fields"),
    ("value_format: bytes, default: keep", "bytes has no schema: open it by `value`"),
    ("value_format: text, drop_record: [{not: {field: a, equals: b}}]", "a condition on a field"),
]


@pytest.mark.parametrize(("topic", "told"), REFUSED)
def test_what_a_policy_cannot_say(topic, told):
    """With the reason."""
    with pytest.raises(ConfigError, match=told):
        parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{{topic}}}}}\n").view("orders")


def test_the_hash_of_other_policies_stays():
    """A policy that says nothing of whole values has the hash that it had before there were any."""
    policy = parse_policy("policy: p\nversion: 1\ntopics: {orders: {key: keep, value_format: json}}\n")
    assert policy.hash.startswith("2bbfe0f9")
    assert parse_policy("policy: p\nversion: 1\ntopics: {orders: {key: keep}}\n").hash != policy.hash


REASONS = {"reason": "r", "owner": "o", "expires": "2030-01-01"}
RULES = {
    "text": ["", ("drop", {}), ("keep", REASONS), ("scrub_text", REASONS), ("redact", {"value": "x"}),
             ("pseudonymize", {"key": "customer", "domain": "d"}), ("truncate", {"length": 2, **REASONS}),
             ("pseudonymize", {"key": "customer", "domain": "d", "encode": "uuid", "normalize": "email"}),
             ("mask_email", {}), ("mask_ip", {}), ("lookup", {"table": {"a": "jane"}})],
    "bytes": ["", ("drop", {}), ("keep", REASONS), ("redact", {}), ("truncate", {"length": 2, **REASONS}),
              ("pseudonymize", {"key": "customer", "domain": "d"}),
              ("pseudonymize", {"key": "customer", "domain": "d", "encode": "bytes"})],
}  # fmt: skip
RAW = st.one_of(
    st.none(), st.binary(max_size=6), st.text(max_size=8).map(str.encode),
    st.sampled_from([b"", b"a", b"jane@example.com", b"10.0.0.1", b"\xc3", b"\xa9", "é".encode(), b"\0\0\0\0\1x"]),
)  # fmt: skip


@pytest.mark.parametrize("form", RULES)
@given(st.data(), st.lists(RAW, max_size=12))
@example(None, [b"\xc3", b"\xa9"])
def test_both_strips_against_the_definition(form, data, values):
    """Any rule, any bytes, any batch: as the oracle has each record by itself; twice, because strips remember."""
    written = data.draw(st.sampled_from(RULES[form])) if data else RULES[form][2]
    rule = TypeAdapter(Rule).validate_python({written[0]: written[1]}) if written else None
    text = json.dumps({written[0]: written[1]}) if written else ""
    expected = [plain.left(form, rule, value, KEYS) for value in values]
    for made in (KernelStrip, ReferenceStrip):
        strip = _strip(form, text, made=made)
        for _ in range(2):
            out = strip.strip(_batch(values))
            assert [out.rejected[n].reason if n in out.rejected else v for n, v in enumerate(out.values)] == expected


@given(st.lists(RAW, max_size=10))
@example([b"\xc3", b"\xa9"])
@example([b"", b"\xa9"])
def test_a_column_is_text_if_each_of_its_cells_is(values):
    """One decoding of all of them and a look at their first bytes tell as much as one of each."""

    def is_text(value):
        try:
            value.decode()
        except UnicodeDecodeError:
            return False
        return True

    assert BytesColumn.of(values).are_text() is all(is_text(value or b"") for value in values)


def test_counts_and_report():
    """Each value is counted once by what happened to it; one that is no text counts nothing."""
    strip = _strip("text", TOKEN)
    out = strip.strip(_batch([b"a", b"b", None, b"\xff", b"a"]))
    assert out.counts == {(".", "pseudonymize"): 3}
    rows = {row.type: row for row in strip.report() if row.path == ""}
    assert rows["text"][5:] == ("pseudonymize", "pseudonymous", 3, 0, 3, 0, False)
    assert (rows["null"].seen, rows["null"].null) == (1, 1)
    kept = _strip("text", KEEP)
    assert kept.strip(_batch([b"a"])).counts == {}
    assert [(row.seen, row.transformed) for row in kept.report() if row.type == "text"] == [(1, 0)]
    undeclared = _strip("text")
    assert undeclared.strip(_batch([b"a"])).counts == {(".", "drop"): 1}


def test_a_record_lost_for_its_key_counts_nothing():
    """The columns are counted together."""
    strip = _strip("text", TOKEN, ", key: keep")
    out = strip.strip(Batch([b"\xff", b"k"], [b"a", b"b"], [None, None]))
    assert (out.counts, list(out.rejected)) == ({(".", "pseudonymize"): 1}, [0])


@pytest.mark.usefixtures("foreign")
@pytest.mark.parametrize("name", ["explode", "picky", "mute", "odd"])
def test_an_operator_that_fails_loses_its_records_alone(name):
    """Never the input."""
    strip = _strip("text", f"{{custom: {{name: {name}, type: string, {WHY}}}}}")
    out = strip.strip(_batch([b"canary_q7Zx3", b"fine"]))
    assert out.rejected[0].reason is Reason.OPERATOR_FAILED
    assert b"canary_q7Zx3" not in out.values


def test_conditions_are_about_where_it_comes_from():
    """Edge and headers; the value has no field."""
    strip = _strip("text", KEEP, ", drop_record: [{header: h, equals: x}]")
    headers = [[("h", b"x")], [("h", b"y")], None]
    out = strip.strip(Batch([None] * 3, [b"a", b"b", b"c"], headers))
    assert (out.suppressed, list(out.rejected)) == ({0}, [2])


@pytest.mark.parametrize(
    "value",
    [f"{{redact: {{value: {'x' * 500}}}}}",
     f"{{regex_replace: {{pattern: '[a-z]', replacement: {'y' * 500}, {WHY}}}}}"],
)  # fmt: skip
def test_what_is_made_of_a_batch_is_bounded(value, monkeypatch):
    """Of one record: too large; of several: their halves are tried, and nothing counts before."""
    monkeypatch.setattr(budgets, "MADE_BYTES", budgets.MADE_BYTES._replace(limit=1_000))
    strip = _strip("text", value)
    with pytest.raises(HoldError, match="their halves are tried"):
        strip.strip(_batch([b"a", b"b", b"c"]))
    assert len(strip.strip(_batch([b"a"])).values[0]) == 500
    assert sum(row.seen for row in strip.report() if row.type == "text") == 1
    monkeypatch.setattr(budgets, "MADE_BYTES", budgets.MADE_BYTES._replace(limit=100))
    assert strip.strip(_batch([b"a"])).rejected[0].reason is Reason.TOO_LARGE


def test_a_batch_is_done_in_parts(monkeypatch):
    """However it is cut, the answers are the same; a value larger than a part is one of its own."""
    values = [b"a" * size for size in (0, 3, 200, 1, 0, 99, 100, 101)] + [None, b"b"]
    whole = _strip("text", TOKEN).strip(_batch(values))
    sizes = []
    for limit, count in itertools.product((1, 100, 150), (1, 2, 100)):
        monkeypatch.setattr(plain_values, "BATCH_PLAIN_BYTES", budgets.BATCH_PLAIN_BYTES._replace(limit=limit))
        monkeypatch.setattr(plain_values, "BATCH_VALUES", budgets.BATCH_VALUES._replace(limit=count))
        assert list(_strip("text", TOKEN).strip(_batch(values)).values) == list(whole.values)
        sizes.append(len([*plain_values._cuts(BytesColumn.of(values))]))
    assert len(set(sizes)) > 3
