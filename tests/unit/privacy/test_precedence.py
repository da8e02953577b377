"""Which rule decides: explicit path, then tag, then default; the most restrictive of one level."""

import json
from datetime import date
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.mask_ip import MaskIp
from aggregator.privacy.operators.nullify import Nullify
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.operators.redact import Redact
from aggregator.privacy.operators.truncate import Truncate
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.precedence import PathRule, Scope, key_scope, schemaless_scope, value_scope
from aggregator.privacy.policy.rules import most_restrictive, privacy_class
from tests.growth import cpu_s, grows_linearly

TODAY = date(2026, 11, 1)
TOKEN = Pseudonymize(key="k", domain="d")
JUSTIFIED = Keep(reason="r", owner="o", expires=date(2027, 1, 1))
EXPIRED = Keep(reason="r", owner="o", expires=TODAY)
OPEN_TRUNCATE = Truncate(length=500, reason="r", owner="o", expires=date(2027, 1, 1))
ENDED_TRUNCATE = Truncate(length=5, reason="r", owner="o", expires=TODAY)
RULES = [Drop(), Nullify(), Redact(), Redact(value="x"), TOKEN, TOKEN.model_copy(update={"domain": "e"}), Keep()]


def _scope(rules=(), tags=None, default=None):
    return Scope("t", ("p", 1, "h"), tuple(rules), tags or {}, (default or Drop(),), Drop())


def _decide(scope, tags=()):
    return scope.decide(frozenset(range(len(scope.rules))), frozenset(tags), TODAY)


@given(st.data())
def test_order_never_matters_and_the_most_restrictive_wins(data):
    """Among rules of one level: the highest class, whatever the order; by path as by tag."""
    rules = data.draw(st.lists(st.sampled_from(RULES), min_size=1))
    turned = data.draw(st.permutations(rules))
    decisions = [_decide(_scope(PathRule("x", rule) for rule in order)) for order in (rules, turned)]
    assert decisions[0] == decisions[1]
    assert privacy_class(decisions[0].rule) == max(privacy_class(rule) for rule in rules)
    tagged = [
        _decide(_scope(tags={f"T{n}": rule for n, rule in enumerate(order)}), [f"T{n}" for n in range(len(order))])
        for order in (rules, turned)
    ]
    assert tagged[0].rule == tagged[1].rule


_PATHS = st.lists(
    st.builds(PathRule, st.sampled_from(["x", "*", "**", "x.y"]), st.sampled_from([*RULES, JUSTIFIED, EXPIRED])),
    max_size=4,
)


@given(_PATHS, st.sampled_from(RULES[:-1]), st.sampled_from(RULES[:-1]))
def test_a_tag_that_takes_more_opens_nothing(paths, one, other):
    """Also where a wildcard is void under it, and another path would open."""
    weak, strong = sorted((one, other), key=privacy_class)
    before, after = (_decide(_scope(paths, {"T": rule}), ["T"]) for rule in (weak, strong))
    assert privacy_class(after.rule) >= privacy_class(before.rule)


@given(_PATHS, st.data())
def test_a_path_that_takes_more_opens_nothing(paths, data):
    """One more rule at the same places, that takes all."""
    tags = data.draw(st.sampled_from([(), ["T"]]))
    tag = {"T": data.draw(st.sampled_from(RULES))}
    before = _decide(_scope(paths, tag), tags)
    after = _decide(_scope([*paths, PathRule(data.draw(st.sampled_from(["x", "*"])), Drop())], tag), tags)
    assert privacy_class(after.rule) >= privacy_class(before.rule)


def test_a_wildcard_closes_as_the_tag_does_also_beside_a_path_that_opens():
    """It is void under the tag, which takes more; what it closed stays closed."""
    paths = [PathRule("*", Redact()), PathRule("x", JUSTIFIED)]
    for tag in (Redact(), Nullify(), Drop()):
        assert privacy_class(_decide(_scope(paths, {"T": tag}), ["T"]).rule) >= privacy_class(Redact())
    assert _decide(_scope(paths, {"T": Drop()}), ["T"]).because == (
        "path * takes what the tag takes (redact of * is void: a wildcard takes no less than a tag)"
    )
    assert _decide(_scope(paths[1:], {"T": Drop()}), ["T"]).rule == JUSTIFIED


def test_of_one_operator_the_coarser_rule_decides_and_never_a_reason():
    """Whatever the letters of their parameters and reasons are."""
    why = {"owner": "o", "expires": date(2027, 1, 1)}
    for reasons in (("a", "z"), ("z", "a")):
        short, long = (Truncate(length=n, reason=why_, **why) for n, why_ in zip((9, 500), reasons, strict=True))
        for order in permutations([short, long, Truncate(length=30, reason="m", **why)]):
            assert most_restrictive(list(order)) == short
    one, other = (MaskIp(v4_prefix=a, v6_prefix=b) for a, b in ((8, 64), (16, 32)))
    assert most_restrictive([one, other]) == most_restrictive([other, one])


@given(st.sampled_from(RULES), st.sampled_from(RULES), st.sampled_from([Drop(), Nullify(), Redact()]))
def test_path_beats_tag_beats_default(path, tag, default):
    """A looser path rule wins over a stricter tag, but for a `keep` that does not say why."""
    untagged = _decide(_scope([PathRule("x", path)], {"T": tag}, default))
    assert untagged.rule == path
    tagged = _decide(_scope([PathRule("x", path)], {"T": tag}, default), ["T"])
    by_tag = Drop() if tag == Keep() else tag
    assert tagged.rule == (by_tag if path == Keep() else path)
    assert _decide(_scope((), {"T": tag}, default)).rule == default


def test_keep_of_a_tagged_field():
    """It needs reason, owner and a day to come; on that day it is closed, also for untagged fields."""
    tags = {"PII": Redact()}
    assert _decide(_scope([PathRule("x", JUSTIFIED)], tags), ["PII"]).rule == JUSTIFIED
    for void, why in [(Keep(), "needs reason, owner and expires"), (EXPIRED, "expired on 2026-11-01")]:
        decision = _decide(_scope([PathRule("x", void)], tags), ["PII"])
        assert decision.rule == Redact()
        assert why in decision.because
    assert _decide(_scope([PathRule("x", EXPIRED)], default=Nullify())).rule == Nullify()
    assert _decide(_scope(tags={"PII": EXPIRED}), ["PII"]).rule == Drop()
    assert _decide(_scope(tags={"PII": JUSTIFIED}), ["PII"]).rule == JUSTIFIED


def test_an_undeclared_tag_closes():
    """A tag that the policy does not know is not `no tag`: not even a topic's `default: keep` opens it."""
    decision = _decide(_scope(default=Keep()), ["NEW"])
    assert (decision.rule, decision.because) == (Drop(), "tag NEW (undeclared)")
    assert _decide(_scope(tags={"OLD": TOKEN}), ["NEW", "OLD"]).rule == Drop()


def test_a_default_that_keeps_ends_on_its_day():
    """Expired means closed again, for what neither a tag nor a path names too; of several the first end counts."""
    decision = _decide(_scope(default=EXPIRED))
    assert (decision.rule, decision.because) == (Drop(), "default; its keep expired on 2026-11-01")
    assert _decide(_scope(default=JUSTIFIED)).rule == JUSTIFIED
    later = JUSTIFIED.model_copy(update={"expires": date(2030, 1, 1)})
    for order in permutations([Keep(), later, JUSTIFIED]):
        assert most_restrictive(list(order)) == JUSTIFIED


_WRITTEN = {rule: json.dumps(text) for rule, text in [
    (Drop(), "drop"), (Nullify(), "nullify"), (Redact(), "redact"),
    (TOKEN, {"pseudonymize": {"key": "k", "domain": "d"}}),
    (Keep(), "keep"), (JUSTIFIED, {"keep": {"reason": "r", "owner": "o", "expires": "2027-01-01"}}),
    (EXPIRED, {"keep": {"reason": "r", "owner": "o", "expires": "2026-11-01"}}),
    (OPEN_TRUNCATE, {"truncate": {"length": 500, "reason": "r", "owner": "o", "expires": "2027-01-01"}}),
    (ENDED_TRUNCATE, {"truncate": {"length": 5, "reason": "r", "owner": "o", "expires": "2026-11-01"}}),
]}  # fmt: skip
_OF_PATTERNS = {
    "key": [Drop(), TOKEN, Keep(), JUSTIFIED, EXPIRED],
    "value": [Drop(), Redact(), TOKEN, JUSTIFIED, EXPIRED, OPEN_TRUNCATE, ENDED_TRUNCATE],
    "default": [Drop(), Nullify(), Redact(), Keep(), JUSTIFIED, EXPIRED],
}


@given(st.data(), st.sampled_from(sorted(_OF_PATTERNS)))
def test_what_has_ended_closes_beside_the_rules_of_other_patterns(data, about):
    """A key, a whole value and a default: an ended rule of one of several patterns gives way to none of the others."""
    rules = data.draw(st.lists(st.sampled_from(_OF_PATTERNS[about]), min_size=1, max_size=4))
    form = "value_format: text, " if about == "value" else ""
    patterns = (f'"orders|t{n}": {{{form}{about}: {_WRITTEN[rule]}}}' for n, rule in enumerate(rules))
    policy = parse_policy(f"policy: p\nversion: 1\ndefault: redact\ntopics: {{{', '.join(patterns)}}}\n")
    scope = {"key": key_scope, "value": schemaless_scope, "default": value_scope}[about](policy, "orders")
    closed = Redact() if about == "default" else Drop()
    left = [closed if rule in (EXPIRED, ENDED_TRUNCATE) else rule for rule in rules]
    decision = scope.decide_whole(TODAY)
    assert decision.rule == (closed if about != "default" and closed in left else most_restrictive(left))
    assert ("expired on 2026-11-01" in decision.because) == (left != rules)
    assert scope.decide_whole(date(2026, 10, 31)).rule == most_restrictive(rules)


@pytest.mark.parametrize("of_tag", [JUSTIFIED, OPEN_TRUNCATE, Redact(), TOKEN])
@pytest.mark.parametrize("beside", [[], [PathRule("**", JUSTIFIED)], [PathRule("x", JUSTIFIED)]])
def test_what_has_ended_closes_also_what_a_tag_opens(of_tag, beside):
    """As the tag closes; where the tag does not, as the default."""
    decision = _decide(_scope([PathRule("x", EXPIRED), *beside], {"T": of_tag}, Keep()), ["T"])
    assert decision.rule == (Drop() if privacy_class(of_tag) is PrivacyClass.CLEAR else of_tag)
    assert "x is void: expired on 2026-11-01" in decision.because


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        lambda number: TOKEN.model_copy(update={"domain": str(number)}),
        lambda number: Truncate(length=number, reason="r", owner="o", expires=date(2027, 1, 1)),
        lambda number: Redact(value=str(number)),
    ],
)
def test_many_rules_of_one_level_cost_what_they_are_many(rule):
    """Of a hundred tags on each of two thousand fields, which is what the budget of tags allows."""
    rules = {size: [rule(number) for number in range(size)] for size in (100, 400)}
    assert grows_linearly(lambda size: most_restrictive(rules[size]), 100)
    tags = {f"T{number}": one for number, one in enumerate(rules[400])}
    scope = _scope(tags=tags)
    assert cpu_s(lambda: [_decide(scope, sorted(tags)[at : at + 100]) for at in range(200)], enough_s=0.5) <= 0.5


def test_classes_are_ordered():
    """Removed > irreversible > pseudonymous > reversible > clear."""
    assert list(reversed(PrivacyClass)) == sorted(PrivacyClass, reverse=True)
    assert [privacy_class(rule).name for rule in (Drop(), Redact(), TOKEN, Keep())] == [
        "REMOVED",
        "IRREVERSIBLE",
        "PSEUDONYMOUS",
        "CLEAR",
    ]


def _rows(fields, schema, *, tags="", default="drop"):
    policy = parse_policy(
        f"policy: p\nversion: 1\ntags: {{{tags}}}\ntopics: {{t: {{default: {default}, fields: {{{fields}}}}}}}\n"
    )
    plan = compile_plan(json.dumps(schema), value_scope(policy, "t"), TODAY)
    return {row.path: (row.operator, row.because) for row in plan.rows}


NESTED = {"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "string"},
    {"name": "m", "type": {"type": "map", "values": {"type": "record", "name": "V", "fields": [
        {"name": "x", "type": "string"}, {"name": "y", "type": ["null", "string", "long"]}]}}},
    {"name": "s", "type": {"type": "array", "items": {"type": "array", "items": "string"}}},
    {"name": "v", "type": ["null", "V"]},
]}  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ("a: keep", ["a"]),
        ('"*": keep', ["a"]),
        ('"**": keep', ["a", "m.{key}", "m.{}.x", "m.{}.y", "s[][]", "v.x", "v.y"]),
        ("s: keep", ["s[][]"]),
        ("v: keep", ["v.x", "v.y"]),
        ('"v.*": keep', ["v.x", "v.y"]),
        ('"**.x": keep', ["v.x"]),
        ('"**.x": keep, "m.{key}": keep', ["m.{key}", "m.{}.x", "v.x"]),
        ('"m.{}": keep, "m.{key}": keep', ["m.{key}", "m.{}.x", "m.{}.y"]),
        ('"m.*": keep', []),
        ("m: keep, m.{}.y: drop", ["m.{key}", "m.{}.x"]),
        ("v: drop, v.x: keep", []),
        ("s[]: keep", ["s[][]"]),
    ],
)
def test_what_a_path_reaches(fields, kept):
    """A rule covers what lies below; `*` is one step and `**` many; a map without keys is lost with its values."""
    rows = _rows(fields.replace("m.{}.y: drop", '"m.{}.y": drop').replace("s[]:", '"s[]":'), NESTED)
    assert sorted({path for path, (operator, _) in rows.items() if operator == "keep"}) == kept


@pytest.mark.parametrize("default", ["drop", "keep"])
@pytest.mark.parametrize(
    ("path", "closed"),
    [
        ("a", ["a"]),
        ("m.*", ["m.{key}", "m.{}.x", "m.{}.y"]),
        ("m.{}", ["m.{}.x", "m.{}.y"]),
        ("s[]", ["s[][]"]),
        ("v.*", ["v.x", "v.y"]),
        ("w.*", ["w.of.x", "w.of.y"]),
        ("w.of", ["w.of.x", "w.of.y"]),
        ("*", ["a", "m.{key}", "m.{}.x", "m.{}.y", "s[][]", "v.x", "v.y", "w.of.x", "w.of.y"]),
    ],
)
def test_a_keep_that_has_ended_closes_all_below_it(path, closed, default):
    """Whatever opens it otherwise: a wildcard, a more exact path, a default; one for a single step does, too."""
    fields = [{"name": "of", "type": "V"}]
    outer = {"name": "w", "type": {"type": "record", "name": "W", "fields": fields}}
    ended = "{keep: {reason: r, owner: o, expires: 2020-01-01}}"
    rows = _rows(
        f'"{path}": {ended}, "**": keep, "w.of.**": keep, "m.{{}}.x": keep',
        {**NESTED, "fields": [*NESTED["fields"], outer]},
        default=default,
    )
    kept = {place for place, (operator, _) in rows.items() if operator == "keep"}
    assert kept.isdisjoint(closed)
    assert kept or path == "*"


def test_tags_are_inherited_by_everything_below():
    """A tag on a field, record, array or map reaches every leaf below, map keys too; unions are no obstacle."""
    schema = {"type": "record", "name": "R", "fields": [
        {"name": "r", "confluent:tags": ["PII"], "type": ["null", {"type": "record", "name": "S", "fields": [
            {"name": "x", "type": ["null", {"type": "map", "values": "string"}]},
            {"name": "y", "type": {"type": "array", "items": "string"}}]}]},
        {"name": "m", "type": {"type": "map", "values": "string", "confluent:tags": ["PII"]}},
        {"name": "s", "type": "S"},
    ]}  # fmt: skip
    rows = _rows('"**": keep', schema, tags="PII: redact", default="keep")
    assert rows["r.y[]"] == ("redact", "tag PII (keep of ** is void: a tagged field needs reason, owner and expires)")
    assert rows["r.x.{key}"][0] == "drop", "a constant key would make all entries one"
    assert rows["m.{}"][0] == "drop", "and a map without keys is no map"
    assert rows["s.x.{}"][0] == "keep", "the same type at an untagged place is not tagged"


def test_the_key_has_its_own_scope():
    """The key's operator reaches every leaf of an Avro key; its tags still close."""
    policy = parse_policy("policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {t: {key: keep, fields: {id: drop}}}\n")
    schema = {"type": "record", "name": "K", "fields": [
        {"name": "id", "type": "long"}, {"name": "mail", "type": "string", "confluent:tags": ["PII"]}]}  # fmt: skip
    plan = compile_plan(json.dumps(schema), key_scope(policy, "t"), TODAY)
    assert [(row.path, row.operator) for row in plan.rows] == [("id", "keep"), ("mail", "drop")]
