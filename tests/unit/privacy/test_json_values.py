"""JSON without a schema: only what a path names is left, in one form, and what readers disagree about is refused."""

import json
import math
import time
import tracemalloc
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aggregator import budgets
from aggregator.errors import ConfigError, HoldError, Reason
from aggregator.privacy.batch.guard import MAXIMUM_DEPTH
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.json import allowlist
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.topic.values import schemaless_decisions
from aggregator.schema.memory import MemoryRegistry
from tests.effort import examples
from tests.unit.privacy.conftest import TODAY
from tests.unit.privacy.kernel.differential import KEYS

pytestmark = pytest.mark.slow

TOKEN = "{pseudonymize: {key: customer, domain: d}}"
JANE = "v1_558273fa650c47eca9298f5d4fa0aa71"


def _strip(fields, more="", edge="eu"):
    lines = "".join(f'\n      "{path}": {operator}' for path, operator in fields.items())
    topic = f"    value_format: json\n    fields:{lines}\n{more}"
    text = f"policy: p\nversion: 1\ndefault: redact\ntopics:\n  orders:\n{topic}"
    return KernelStrip(
        policy=parse_policy(text), edge_topic="orders", central_topic="eu.orders", edge_registry=MemoryRegistry(),
        central_registry=None, key_rings=KEYS, now_s=time.monotonic, today=lambda: TODAY, edge=edge,
    )  # fmt: skip


def _batch(values):
    return Batch([None] * len(values), values, [None] * len(values))


def _left(fields, *values):
    """What is left of values that Python has."""
    out = _strip(fields).strip(_batch([json.dumps(value).encode() for value in values]))
    assert out.rejected == {}
    return [json.loads(value) for value in out.values]


CASES = [
    ({"id": "keep"}, {"id": 1, "name": "jane"}, {"id": 1}),
    ({"id": "keep"}, {"id": {"a": 1}, "x": [1]}, {}),
    ({"id": "keep"}, {"id": [1]}, {}),
    ({"a.b": "keep"}, {"a": {"b": "x", "c": "y"}, "b": 1}, {"a": {"b": "x"}}),
    ({"a.b": "keep"}, {"a": {}}, {"a": {}}),
    ({"a.b": "keep"}, {"a": [{"b": 1}]}, {}),
    ({"a.b": "keep"}, {"a": "jane"}, {}),
    ({"a[]": "keep"}, {"a": ["x", 1, None, True, {"b": 1}, ["y"]]}, {"a": ["x", 1, None, True]}),
    ({"a[].b": "keep"}, {"a": [{"b": 1, "c": 2}, 3, {}]}, {"a": [{"b": 1}, {}]}),
    ({"[].b": "keep"}, [{"b": 1, "c": 2}], [{"b": 1}]),
    ({"a": "keep"}, "jane", None),
    ({"**": "keep"}, "jane", "jane"),
    ({"a.**": "keep", "a.b": "drop"}, {"a": {"b": 1, "x y": [{"é": 2}]}}, {"a": {"x y": [{"é": 2}]}}),
    ({"a.**": "keep", "a.b": "redact"}, {"a": {"b": {"jane": 1}, "c": 2}}, {"a": {"b": {}, "c": 2}}),
    ({"a.*": "keep"}, {"a": {"b": 1, "c": {"d": 1}}}, {"a": {"b": 1}}),
    ({"a.{}": "keep"}, {"a": {"jane": 1}}, {"a": {}}),
    ({"a.{}": "keep", "a.{key}": "keep"}, {"a": {"jane": 1}}, {"a": {"jane": 1}}),
    ({"a.{}": "keep", "a.{key}": TOKEN}, {"a": {"jane": 1}}, {"a": {JANE: 1}}),
    ({"a.{}": "keep", "a.{key}": "redact"}, {"a": {"jane": 1}}, {"a": {}}),
    ({"a.{}": TOKEN, "a.{key}": "keep", "a.b": "keep"}, {"a": {"b": "jane", "c": "jane"}},
     {"a": {"b": JANE, "c": JANE}}),
    ({"a.{}": "keep", "a.{key}": TOKEN}, {"a": {"{key}": 1, "{}": 2, "[]": 3, "*": 4, "**": 5}}, None),
    ({"first-name": "keep", "@id": "keep", "2024": "keep"}, {"first-name": 1, "@id": 2, "2024": 3, "x": 4},
     {"first-name": 1, "@id": 2, "2024": 3}),
    ({"a": TOKEN}, {"a": "jane"}, {"a": JANE}),
    ({"a": TOKEN}, {"a": None}, {"a": None}),
    ({"a": TOKEN}, {"a": True}, {}),
    ({"a": TOKEN}, {"a": 1.5}, {}),
    ({"a": "{pseudonymize: {key: customer, domain: d, encode: bytes}}"}, {"a": "jane"}, {}),
    ({"a[]": "redact"}, {"a": ["x", 1, 1.5, True, None]}, {"a": ["[REDACTED]", 0, 0.0, False, None]}),
    ({"a[]": "nullify"}, {"a": ["x", 1, 1.5, True, None]}, {"a": [None] * 5}),
    ({"a[]": "{round: {digits: -1}}"}, {"a": [17, 17.5, "17"]}, {"a": [20, 20.0]}),
    ({"a": "{mask: {keep_last: 2}}"}, {"a": 1234}, {"a": "**34"}),
    ({"a": "{truncate: {length: 1}}"}, {"a": "Żółć"}, {"a": "Ż"}),
    ({"a": "{age: {}}"}, {"a": "2000-01-01"}, {"a": "26"}),
    ({"a": "{date_shift: {entity: b.id, days: [5, 7], key: customer}}"}, {"a": "2000-01-01T10:00", "b": {"id": 42}},
     {"a": "2000-01-08"}),
    ({"a": "{date_shift: {entity: b, days: [5, 7], key: customer}}"}, {"a": "2000-01-01", "b": {"id": 42}},
     {"a": "[REDACTED]"}),
    ({"a": "{keep: {reason: r, owner: o, expires: 2020-01-01}}", "b": "keep"}, {"a": 1}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("fields", "value", "left"), CASES)
def test_what_is_left(fields, value, left):
    """Paths open exactly what they name; names that are data need a rule of their own; types follow the operators."""
    if left is None and isinstance(value, dict):
        left = {"a": {}}
        (made,) = _left(fields, value)
        assert len(made["a"]) == len(value["a"]), "names that look like wildcards are names"
        assert made["a"].keys().isdisjoint(value["a"])
        return
    assert _left(fields, value) == [left]
    assert [type(one) for one in json.loads(json.dumps(left))] == [type(one) for one in left] if left else True


@pytest.mark.parametrize(
    "text",
    [b"", b" ", b"{", b"{} {}", b"nul", b"NaN", b"[Infinity]", b"-Infinity", b"'a'", b"{'a':1}", b"[1,]", b"01", b"+1",
     b".5", b"1.", b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'{"x":{"a":1,"a":2}}', b'"\xff"', b'"\xed\xa0\x80"',
     b'"\\ud800"', b'{"\\uDC00x":1}', b"\xef\xbb\xbf{}", '{"a":1}'.encode("utf-16"), b'"\t"', b'"\\x"', b"//x\n1",
     b"9223372036854775808", b"-9223372036854775809", b"1" * 5000, b"1e400", b"-1e400", b"1e-400",
     b"1e-99999999999999999999", b"0." + b"1" * 30, b"1." + b"0" * 100, b"\0\0\0\0\1{}", b'{"a":"' + b"\\" * 9],
)  # fmt: skip
def test_what_is_no_json_or_not_the_same_everywhere_is_refused(text):
    """Also where it lies in what would be dropped: a record passes whole or not at all."""
    for value in (text, b'{"dropped":' + text + b"}", b'{"kept":' + text + b"}"):
        out = _strip({"kept": "keep", "**.a": "keep"}).strip(_batch([value]))
        assert (out.values, [item.reason for item in out.rejected.values()]) == ([None], [Reason.UNDECODABLE])


@pytest.mark.parametrize("where", ["keep", "drop"])
@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(where, open_, close):
    """As deep as for Avro and no deeper, kept or dropped, closed or not; brackets in texts are no nesting."""
    strip = _strip({"**": where} if where == "keep" else {"x": "keep"})

    def reason(depth):
        text = open_ * depth + "1" + close * depth
        out = strip.strip(_batch([text.encode()]))
        return out.rejected[0].reason if out.rejected else None

    assert [reason(depth) for depth in (MAXIMUM_DEPTH, MAXIMUM_DEPTH + 1, 100_000)] == [None] + [Reason.TOO_DEEP] * 2
    out = strip.strip(
        _batch([b"[" * 1_000_000, json.dumps('[{"' * 500).encode(), b'["\\"' * 200_000 + b'"\\"' * 200_000])
    )
    assert {place: item.reason for place, item in out.rejected.items()}[0] is Reason.TOO_DEEP
    assert 1 not in out.rejected


SPELLINGS = [b'{"b":[1,2.50,"\xc3\xa9"],"a":-0.0}', b' {\n"a" : -0.00 ,"b":[ 1 , 25e-1 , "\\u00e9" ] } ',
             b'{"a":-0e0,"b":[1,0.25E+1,"\\u00E9"]}']  # fmt: skip


def test_one_form():
    """Every spelling of a value becomes the same bytes: sorted names, no spaces, shortest numbers, plain UTF-8."""
    out = _strip({"**": "keep"}).strip(_batch(SPELLINGS))
    assert set(out.values) == {'{"a":-0.0,"b":[1,2.5,"é"]}'.encode()}


LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.sampled_from(["jane", "Żółć", "", "😀"]),
                   st.floats(-9, 9))  # fmt: skip
NAMES = st.sampled_from(["a", "b", "c", "{key}", "*", "jane"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
STEPS = st.lists(st.sampled_from(["a", "b", "c", "*", "**", "{}", "{key}"]), min_size=1, max_size=3)
PATHS = st.builds(lambda steps, items: ".".join(steps) + "[]" * items, STEPS, st.integers(0, 1))
RULES = st.dictionaries(PATHS, st.sampled_from(["keep", "keep", "keep", "drop"]), max_size=4)


# All words that a step below may match: of an array's item, of some object's member.
ITEM, MEMBER = frozenset({"[]"}), frozenset({"{}", "a", "b", "c"})


def _steps(path):
    return [step for part in path.replace("[]", ".[]").split(".") for step in [part] if step]


def _reaches(pattern, steps):
    """Whether a path leads to a place; by trying, one step at a time."""
    if not pattern:
        return not steps
    if pattern[0] == "**":
        return _reaches(pattern[1:], steps) or (bool(steps) and _reaches(pattern, steps[1:]))
    return bool(steps) and (pattern[0] == "*" or pattern[0] in steps[0]) and _reaches(pattern[1:], steps[1:])


class _Oracle:
    """The allow list by its definition: every place asks every path anew. A step is the set of words that match it."""

    def __init__(self, rules):
        self.keep = [_steps(path) for path, rule in rules.items() if rule == "keep"]
        self.drop = [_steps(path) for path, rule in rules.items() if rule == "drop"]

    def is_kept(self, steps):
        """A scalar or a name: some `keep` ends here, and no `drop` here or above."""
        is_dropped = any(_reaches(path, steps[:n]) for path in self.drop for n in range(len(steps) + 1))
        return not is_dropped and any(_reaches(path, steps) for path in self.keep)

    def opens(self, steps, first):
        """Whether a `keep` ends further down, after a step of this kind and any others."""
        onwards = [rest for size in range(5) for rest in product((ITEM, MEMBER), repeat=size)]
        return any(_reaches(path, (*steps, first, *rest)) for path in self.keep for rest in onwards)

    def is_written(self, steps, name, rules=None):
        """Whether the policy has this name as the next step."""
        patterns = [(path[:n], path[n]) for path in rules or self.keep + self.drop for n in range(len(path))]
        return name in "abc" and any(step == name and _reaches(before, steps) for before, step in patterns)

    def is_word(self, steps, name):
        """Whether a path that keeps something has it: else the name is data."""
        return bool(self.keep) and self.is_written(steps, name, self.keep)

    def left(self, value, steps=()):
        """What is left, as a list of one; empty for nothing."""
        if isinstance(value, dict):
            made = {}
            for name, inner in value.items():
                words = {"{}", name} if self.is_written(steps, name) else {"{}"}
                if self.is_word(steps, name) or self.is_kept((*steps, {"{key}"})):
                    for kept in self.left(inner, (*steps, words)):
                        made[name] = kept
            return [made] if self.opens(steps, MEMBER) else []
        if isinstance(value, list):
            made = [kept for item in value for kept in self.left(item, (*steps, {"[]"}))]
            return [made] if self.opens(steps, ITEM) else []
        return [value] if self.is_kept(steps) else []


@settings(max_examples=examples(150))
@given(RULES, st.lists(VALUES, min_size=1, max_size=4))
@example({"**": "keep"}, [{"a": {"{key}": 1}}])
@example({"a.**": "keep", "**.b": "drop"}, [{"a": {"b": 1, "c": [2]}}])
@example({"**[]": "keep"}, [[{}, {"a": [1]}]])
@example({"a": "keep", "**.{key}": "keep"}, [[], {"b": {}}])
def test_the_allow_list_against_its_definition(rules, values):
    """Any paths, any values: as the oracle has it, which compares every place with every path by itself."""
    oracle = _Oracle(rules)
    expected = [(oracle.left(value) or [None])[0] for value in values]
    assert _left(rules, *values) == expected


def _leaves(value, way=()):
    """Every scalar, name and container of a value, by its way."""
    if isinstance(value, dict):
        return {(way, "object")}.union(*(_leaves(inner, (*way, name)) for name, inner in value.items()))
    if isinstance(value, list):
        return {(way, "array")}.union(*(_leaves(inner, (*way, "[]")) for inner in value))
    return {(way, json.dumps(value))}


ENDED = "{keep: {reason: r, owner: o, expires: 2020-01-01}}"


@settings(max_examples=examples(300))
@given(RULES, PATHS, VALUES)
@example({"a.{}.c": "keep"}, "a.b.a", {"a": {"b": {"a": 1, "c": "jane"}}})
@example({"{}": "keep", "{key}": "keep"}, "a[].c", {"a": ["jane"]})
@example({"*": "keep", "a": "drop"}, "**.c", {"a": {}, "b": {"jane": []}})
def test_a_drop_opens_nothing_and_what_has_ended_is_one(rules, path, value):
    """Neither by a name that it writes, nor by a container that it leads into."""
    kept = {other: rule for other, rule in rules.items() if other != path}
    (before,), (dropped,), (ended,) = (_left(kept | more, value) for more in ({}, {path: "drop"}, {path: ENDED}))
    assert dropped == ended
    assert dropped is None or _leaves(dropped) <= _leaves(before)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"**": "drop", "a": "keep"}, {"**": "drop", "a": "drop"}),
        ({"a": ENDED, "a.b": "keep", "c": "keep"}, {"a": "drop", "a.b": "drop", "c": "keep"}),
        ({"x[].y": "keep", "x[]": "drop"}, {"x[]": "drop", "x[].y": "drop"}),
        ({"{}": "redact", "**": "keep", "{key}": "keep"}, {"**": "keep", "{key}": "keep", "{}": "redact"}),
        ({"a.{key}": "keep", "a": "drop", "b.{}": "keep"}, {"a": "drop", "a.{key}": "drop", "b.{}": "keep"}),
        ({".".join("a" * 400): "keep"}, {".".join("a" * 400): "keep"}),
    ],
)
def test_what_is_told_of_a_path_is_what_a_strip_does_there(fields, told):
    """Together with whatever else the policy says of the place."""
    lines = "".join(f'"{path}": {rule}, ' for path, rule in fields.items())
    policy = parse_policy(f"policy: p\nversion: 1\ntopics: {{t: {{value_format: json, fields: {{{lines}}}}}}}\n")
    found = {path: decision.rule.operator for path, decision in schemaless_decisions(policy, "t", TODAY)}
    assert found == told


@settings(max_examples=examples(200))
@given(st.dictionaries(PATHS, st.sampled_from(["keep", "drop"]), max_size=3), VALUES)
def test_twice_is_once(rules, value):
    """What is kept is kept again, byte for byte."""
    once = _strip(rules).strip(_batch([json.dumps(value).encode()])).values
    assert _strip(rules).strip(_batch(once)).values == once


@settings(max_examples=examples(300))
@given(st.lists(st.one_of(st.binary(max_size=30), VALUES.map(lambda value: json.dumps(value).encode())), max_size=5),
       st.integers(0, 40), st.binary(max_size=2))  # fmt: skip
def test_conservation(values, at, junk):
    """Whatever the bytes: each is delivered as JSON or rejected, and the same twice."""
    values = [None, *values, *(value[:at] + junk + value[at:] for value in values)]
    strip = _strip({"a.**": "keep", "b[]": TOKEN, "c.{key}": TOKEN, "c.{}": "redact"})
    out = strip.strip(_batch(values))
    for place, value in enumerate(values):
        assert (out.values[place] is None) == (value is None or place in out.rejected)
        if out.values[place] is not None:
            json.loads(out.values[place])
    assert strip.strip(_batch(values)) == out


@pytest.mark.parametrize("path", ["customer", "customer.*", "{}", "list[]"])
def test_a_keep_that_has_ended_closes_all_below_it(path):
    """As in Avro, whatever wildcard opens it otherwise, a more exact path too."""
    ended = "{keep: {reason: r, owner: o, expires: 2020-01-01}}"
    (left,) = _left(
        {path: ended, "**": "keep", "customer.email": "keep"},
        {"customer": {"email": "SECRET", "of": {"a": "SECRET"}}, "list": [{"a": "SECRET"}], "x": 1},
    )
    shut = {"customer": "customer", "customer.*": "customer", "list[]": "list"}.get(path)
    assert "SECRET" not in json.dumps(left if shut is None else left.get(shut, ""))
    assert shut is None or left["x"] == 1


def test_names_that_become_one_are_a_dead_letter():
    """Two customers never share an entry, whichever way a name comes about."""
    fold = "{pseudonymize: {key: customer, domain: d, normalize: casefold}}"
    strip = _strip({"a.{}": "keep", "a.{key}": fold, f"a.{JANE}": "keep"})
    values = [b'{"a":{"Jane":1,"jane":2}}', b'{"a":{"jane":1,"%s":2}}' % JANE.encode(), b'{"a":{"jane":1,"joe":2}}']
    out = strip.strip(_batch([values[0], values[1].replace(b'"jane":1,', b'"jane":1,'), values[2]]))
    assert [place in out.rejected for place in range(3)] == [True, True, False]
    assert out.rejected[0].reason is Reason.OPERATOR_FAILED


def test_counts_and_paths_hold_no_name_of_the_data():
    """What is counted and reported is in the policy's words; an unlisted name is `{}`."""
    strip = _strip({"a.b": TOKEN, "a.c[]": "keep", "m.{key}": TOKEN, "m.{}": "keep"})
    value = {"a": {"b": "x", "jane": {"joe": 1}, "c": [1, None, {"jim": 2}]}, "m": {"jill": 1}, "jack": "y"}
    out = strip.strip(_batch([json.dumps(value).encode()] * 2))
    assert out.counts == {("a.b", "pseudonymize"): 2, ("a.{key}", "drop"): 2, ("a.c[]", "drop"): 2,
                          ("m.{key}", "pseudonymize"): 2, ("{key}", "drop"): 2}  # fmt: skip
    told = {(row.path, row.type): row for row in strip.report()}
    assert told["a.b", "string"][7:] == (2, 0, 2, 0, False)
    assert told["a.c[]", "null"][7:] == (2, 2, 0, 0, False)
    assert (told["{key}", "name"].operator, told["{key}", "name"].unclassified) == ("drop", True)
    assert not any(name in str(strip.report()) + str(out.counts) for name in ("jane", "joe", "jim", "jill", "jack"))


def test_shapes_without_end_take_bounded_memory(monkeypatch):
    """An open path meets any nesting; places that are treated alike are one when there are many."""
    monkeypatch.setattr(allowlist, "MAXIMUM_PLACES", 50)
    strip = _strip({"a.**": "keep"})
    values = []
    for number in range(300):
        text = "1"
        for bit in range(9):
            text = f"[{text}]" if number >> bit & 1 else f'{{"x":{text}}}'
        values.append(f'{{"a":{text}}}'.encode())
    assert strip.strip(_batch(values)).values == values
    assert len(strip.report()) < 150


def test_an_operator_without_an_answer_rejects_the_record():
    """Never the input: a date beyond the calendar."""
    strip = _strip({"at": "{date_shift: {entity: who, days: [1, 9], key: customer}}", "who": "drop"})
    out = strip.strip(_batch([b'{"at":"9999-12-31","who":1}', b'{"at":"1999-12-31","who":1}']))
    assert [item.reason for item in out.rejected.values()] == [Reason.OPERATOR_FAILED]
    (row,) = [row for row in strip.report() if row.path == "at"]
    assert (row.seen, row.transformed, row.rejected) == (2, 1, 1)


@pytest.mark.parametrize(
    ("condition", "became"),
    [("{field: ok, equals: true}", ["left out", "passes", "dead", "dead", "dead", "dead"]),
     ("{field: ok, is_null: true}", ["passes", "passes", "left out", "left out", "passes", "passes"])],
)  # fmt: skip
def test_conditions_on_json(condition, became):
    """A name that is not there is null; a container, or a text for a truth value, cannot be compared."""
    values = [b'{"ok":true}', b'{"ok":false}', b'{"ok":null}', b"{}", b'{"ok":{}}', b'{"ok":1.5}']
    out = _strip({"id": "keep"}, f"    drop_record: [{condition}]\n").strip(_batch(values))
    words = ["left out" if n in out.suppressed else "dead" if n in out.rejected else "passes" for n in range(6)]
    assert words == became


def test_headers_that_name_schemas_change_nothing():
    """The value is read as the policy says, and the header does not travel."""
    strip = _strip({"a": "keep"}, "    headers: [__value_schema_id]\n")
    out = strip.strip(Batch([None], [b'{"a":1}'], [[("__value_schema_id", b"\0\0\0\0\1")]]))
    assert (out.values, out.headers, out.rejected) == ([b'{"a":1}'], [[]], {})


@pytest.mark.parametrize(
    ("more", "message"),
    [("default: keep", "JSON has no schema"), ("fields: {'a.*': redact}", "ends in a wildcard"),
     ("fields: {'**': {mask: {}}}", "ends in a wildcard"), ("value_format: xml", "value_format")],
)  # fmt: skip
def test_policies_that_would_open_json_by_default_are_refused(more, message):
    """And a format that is none."""
    line = "" if "value_format" in more else "value_format: json, "
    with pytest.raises(ConfigError, match=message):
        parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{{line}{more}}}}}\n")


def test_two_formats_for_one_topic_are_refused():
    """As for keys."""
    text = "policy: p\nversion: 1\ntopics: {a: {value_format: json}, '.': {value_format: avro}, 'a|b': {}}\n"
    with pytest.raises(ConfigError, match="two value formats for topic a"):
        parse_policy(text).view("a")
    assert parse_policy(text).view("b").value_format == "avro"


@given(st.floats(allow_nan=False, allow_infinity=False))
@example(5e-324)
@example(1.7976931348623157e308)
def test_every_double_passes_unchanged(number):
    """Whatever a double holds is written so that the same double is read."""
    (left,) = _left({"a": "keep"}, {"a": number})
    assert left["a"] == number
    assert math.copysign(1, left["a"]) == math.copysign(1, number)


@pytest.mark.parametrize(
    "operator",
    [f"{{redact: {{value: {'x' * 500}}}}}", f"{{regex_replace: {{pattern: '[0-9]', replacement: {'y' * 500}}}}}"],
)
def test_what_is_made_of_a_batch_is_bounded(operator, monkeypatch):
    """Of one record: too large, before it is made; of several: their halves are tried, and each place counts once."""
    monkeypatch.setattr(budgets, "MADE_BYTES", budgets.MADE_BYTES._replace(limit=1_000_000))
    large = json.dumps({"a": [str(number) for number in range(10_000)]}).encode()
    small = json.dumps({"a": ["1"] * 1_500}).encode()
    strip = _strip({"a[]": operator})
    tracemalloc.start()
    try:
        assert strip.strip(_batch([large])).rejected[0].reason is Reason.TOO_LARGE
        for several in ([small, large], [small, small]):
            with pytest.raises(HoldError, match="their halves are tried"):
                strip.strip(_batch(several))
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()
    assert len(strip.strip(_batch([small])).values[0]) > 750_000
    assert {row.seen for row in strip.report() if row.path == "a[]"} == {1_500}
