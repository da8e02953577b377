"""What `stricter` means: no two values that were alike before differ after, and none shows in clear that did not.

Pairs of policies are drawn, and their plans are run over values that lie close to what the operators tell apart.
"""

import base64
import hashlib
import json
import struct
from collections import Counter
from datetime import date
from functools import lru_cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.privacy import operators
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import Action, Call
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.privacy.policy.strictness import Strictness, compare_rules
from aggregator.privacy.review.diff import WriterSchema, policy_changes
from aggregator.privacy.review.fixtures import written_ring
from aggregator.privacy.review.sample_strictness import compare_on_samples
from aggregator.schema.avro import Kind, Logical
from tests.effort import examples
from tests.unit.privacy.operators.single import DOUBLE, LONG, TEXT, rule

pytestmark = pytest.mark.slow

TODAY = date(2026, 11, 21)
RINGS = {
    name: written_ring({1: base64.b64encode(make(name.encode()).digest()).decode()})
    for name, make in (("k", hashlib.sha256), ("k64", hashlib.sha512))
}
VALUES: dict[str, list] = {
    "string": ["", "7", "42", "1", "-3", "A", "AB", "abcd", "abcde", "zzzzz", "abcdef1234", "abcdef9999", "zbcdef1234",
               "10.1.1.1", "10.2.2.2", "j@a.example", "j@b.example", "k@a.example", "52.5196,13.405", "52.5204,13.405",
               "https://a.example/x", "https://b.example/x", "030 1234567", "030 1239999", "1984-12-31", "1990-01-01"],
    "long": [1, 5, 7, 9, 10, 15, 25, 42, 1000, -3],
    "double": [struct.pack("<d", number) for number in (0.25, 0.5, 1.6, 2.5, 14.000005, 14.1, 1e9, float("nan"))],
    "E": ["A", "AB"],
    "null": [None],
}  # fmt: skip
JUST = {"reason": "r", "owner": "o", "expires": "2030-01-01"}
PAST = {**JUST, "expires": "2020-01-01"}
BY_OPERATOR: dict[str, list[dict]] = {
    "keep": [{}, JUST, PAST],
    "drop": [{}],
    "nullify": [{}],
    "redact": [{}, {"value": "x"}],
    "mask": [{}, {"keep_first": 5}, {"keep_first": 4}, {"keep_last": 4}, {"keep_first": 5, **JUST}, PAST],
    "truncate": [{"length": length, **more} for length in (0, 2, 5) for more in ({}, JUST)],
    "mask_ip": [{"v4_prefix": 8, "v6_prefix": 127}, {}, {"v4_prefix": 16}],
    "mask_email": [{"parts": ["domain"]}, {}],
    "mask_url": [{"parts": ["host", "path", "query"]}, {}],
    "geo": [{"decimals": 3}, {"geohash": 6}, {"geohash": 3}],
    "bucket": [{"size": 1.5}, {"size": 2}, {"size": 3}, {"ranges": [0, 1]}, {"ranges": [0, 10, 20]}, {"ranges": [0]}],
    "round": [{"digits": 0}, {"digits": -1}],
    "lookup": [{"table": {"1": "a", "42": "x", "7": "x"}}, {"table": {"42": "x", "7": "a"}},
               {"table": {"42": "42", "7": "a", "x": "7"}}, {"table": {"42": "42", "7": "7", "x": "a"}},
               {"table": {"1": "a", "42": "a", "7": "x"}}, {"table": {"A": "A", "AB": "B"}}],
    "pseudonymize": [{"key": "k", "domain": "d"}, {"key": "k", "domain": "d", "normalize": "casefold"}],
    "encrypt_deterministic": [{"key": "k64"}],
    "regex_replace": [{"pattern": ".*", "replacement": "x"}],
    "age": [{"cap": 30}, {"cap": 150}],
}  # fmt: skip


def _rules_of(name):
    return st.sampled_from([{name: more} for more in BY_OPERATOR[name]])


any_rule = st.sampled_from(sorted(BY_OPERATOR)).flatmap(_rules_of)
# Half of the pairs are two rules of one operator, where a verdict is hardest.
pairs = st.sampled_from(sorted(BY_OPERATOR)).flatmap(lambda name: st.tuples(_rules_of(name), _rules_of(name)))
pairs |= st.tuples(any_rule, any_rule) | st.tuples(any_rule, st.just(None)) | any_rule.map(lambda rule: (rule, rule))
enum = {"type": "enum", "name": "E", "symbols": ["A", "AB"]}
FIELDS: dict[str, list[str]] = {
    "s": ["string"],
    "n": ["long"],
    "d": ["double"],
    "u": ["null", "string", "long"],
    "e": ["string", "E"],
}
tags = st.sampled_from([[], [], ["PII"], ["ID"], ["unheard"], ["PII", "ID"]])
TAG_RULES = [
    "drop", "redact", "nullify", {"mask": {"keep_last": 4}}, {"pseudonymize": {"key": "k", "domain": "d"}},
    {"keep": JUST}, {"truncate": {"length": 2, **JUST}}, {"mask": {"keep_last": 1, **PAST}},
]  # fmt: skip


@st.composite
def changes_of_policies(draw):
    """Two policies that differ in few places."""
    paths = draw(st.dictionaries(st.sampled_from([*FIELDS, "**", "*"]), pairs, min_size=1, max_size=3))
    rules = st.sampled_from(TAG_RULES)
    of_tags = draw(st.dictionaries(st.sampled_from(["PII", "ID"]), rules))
    later = {**of_tags, **draw(st.just({}) | st.dictionaries(st.just("PII"), rules))}
    default = draw(st.sampled_from([(None, None)] * 3 + [("keep", "redact"), ("keep", "drop"), ("redact", "drop")]))
    return [
        Policy.model_validate({
            "policy": "p", "version": side + 1, "tags": (of_tags, later)[side],
            "topics": {"orders": {
                "default": default[side],
                "fields": {path: pair[side] for path, pair in paths.items() if pair[side] is not None},
            }},
        })
        for side in (0, 1)
    ]  # fmt: skip


@st.composite
def schemas(draw):
    """One field of each type, with tags or without."""
    fields = []
    for name, branches in FIELDS.items():
        types = [enum if branch == "E" else branch for branch in branches]
        fields.append({"name": name, "type": types if len(types) > 1 else types[0], "confluent:tags": draw(tags)})
    return json.dumps({"type": "record", "name": "R", "fields": fields})


@lru_cache(10_000)
def results(call, values):
    """What an operator call makes of these values."""
    return operators.build(call.rule, call.leaf, RINGS, call.context)(list(values))


LEAVES = [
    (TEXT, "string"), (LONG, "long"), (DOUBLE, "double"), (Leaf(Kind.ENUM, symbols=("A", "AB")), "E"),
    (Leaf(Kind.STRING, Logical("uuid")), "string"),
]  # fmt: skip


def left(made, leaf, values):
    """What a rule leaves of values of this type."""
    result = operators.result(made, leaf) if made.operator not in ("keep", "drop") else None
    if result is None:
        return values if made.operator == "keep" else [None] * len(values)
    return results(Call(made, leaf, result, operators.context(made, "orders", "x", TODAY)), tuple(values))


def test_a_rule_that_is_called_stricter_tells_no_more():
    """Every pair of rules on every type that both take."""
    rules = [rule(name, **more) for name, several in BY_OPERATOR.items() for more in several]
    found = Counter()
    for leaf, kind in LEAVES:
        values = VALUES[kind]
        taken = [one for one in rules if one.operator in ("keep", "drop") or operators.result(one, leaf) is not None]
        sides = [(one, left(one, leaf, values)) for one in taken]
        for (before, old), (after, new) in product(sides, sides):
            verdict = compare_rules(before, after)
            found[verdict] += 1
            if not verdict.loosens:
                known = {}
                is_as_coarse = all(known.setdefault(one, other) == other for one, other in zip(old, new, strict=True))
                shown = [one for value, one, other in zip(values, old, new, strict=True) if other == value != one]
                assert is_as_coarse, (before, after, leaf)
                assert not shown, (before, after, leaf)
    assert min(found[verdict] for verdict in Strictness) > 100


@given(st.sampled_from(LEAVES), pairs.filter(lambda pair: pair[1] is not None))
def test_no_sample_calls_a_rule_stricter(of_type, pair):
    """Sample values show a difference; that there is none they cannot show."""
    before, after = (rule(name, **more) for one in pair for name, more in one.items())
    if all(one.operator not in ("keep", "drop") and operators.result(one, of_type[0]) for one in (before, after)):
        assert compare_on_samples(before, after, of_type[0]) in (Strictness.LOOSER, Strictness.OTHER)


def seen(plan, field):
    """Type and value that stand for each value of a field in the output; None where nothing does."""
    top = plan.nodes[plan.nodes[plan.root].children[list(FIELDS).index(field)]]
    is_union = top.kind is Kind.UNION
    shown = []
    for place, branch in enumerate(FIELDS[field]):
        node = plan.nodes[top.children[place]] if is_union else top
        values = VALUES[branch]
        if top.action is Action.DROP or node.action is Action.DROP or node.kind is Kind.NULL:
            shown += [None] * len(values)
            continue
        made = results(plan.calls[node.call], tuple(values)) if node.call >= 0 else values
        route = top.routes[place] if is_union else 0
        shown += [None if one is None else (route, one) for one in made]
    return shown


def told_apart(old, new, schema):
    """The fields of which the new policy tells two values apart that the old one did not, or shows one in clear."""
    plans = [compile_plan(schema, value_scope(policy, "orders"), TODAY) for policy in (old, new)]
    for field, branches in FIELDS.items():
        known = {}
        plain = [value for branch in branches for value in VALUES[branch]]
        for before, after, value in zip(*(seen(plan, field) for plan in plans), plain, strict=True):
            shows = value is not None and after is not None and after[1] == value
            showed = before is not None and before[1] == value
            if known.setdefault(before, after) != after or (shows and not showed):
                yield field
                break


@settings(max_examples=examples(150))
@given(changes_of_policies(), schemas())
def test_what_is_called_stricter_tells_no_more(policies, schema):
    """Of a schema that is given each field by its line; of one that is not the whole, where no written line loosens."""
    old, new = policies
    changes = policy_changes(old, new, [WriterSchema("orders", schema)], TODAY)
    loosened = {change.path for change in changes if change.topic == "orders" and change.verdict.loosens}
    opened = set(told_apart(old, new, schema))
    assert opened <= loosened
    if not any(change.verdict.loosens for change in policy_changes(old, new, [], TODAY)):
        assert not opened
