"""What a change of a policy opens and closes: laws over drawn rules and policies, and every way of loosening."""

import json
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.policy.file import Policy, parse_policy
from aggregator.privacy.policy.precedence import value_scope
from aggregator.privacy.policy.rules import Rule
from aggregator.privacy.policy.strictness import Strictness, combine_verdicts, compare_rules
from aggregator.privacy.review.diff import WriterSchema, policy_changes
from aggregator.privacy.review.place_pairs import place_pairs
from aggregator.privacy.review.sample_strictness import compare_on_samples
from aggregator.privacy.review.schema_slices import SchemaSlices, ScopeSlices, literal_part
from aggregator.schema.avro import parse
from aggregator.schema.registry import SchemaVersion
from tests.effort import examples
from tests.growth import grows_linearly

TODAY = date(2026, 11, 21)
SCHEMA = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "id", "type": "long"},
    {"name": "email", "type": ["null", "string"], "confluent:tags": ["PII"]},
    {"name": "born", "type": {"type": "int", "logicalType": "date"}},
    {"name": "next", "type": ["null", "R"]},
    {"name": "items", "type": {"type": "map", "values": {"type": "array", "items": "string"}}},
]})  # fmt: skip
ORDERS = [WriterSchema("orders", SCHEMA)]
MIRRORED = {Strictness.LOOSER: Strictness.STRICTER, Strictness.STRICTER: Strictness.LOOSER}
RULES = [
    TypeAdapter(Rule).validate_python(rule)
    for rule in (
        "keep", "drop", "nullify", "redact", {"redact": {"value": "x"}}, {"truncate": {"length": 2}},
        {"keep": {"reason": "r", "owner": "o", "expires": "2027-01-01"}}, {"truncate": {"length": 5}},
        {"mask": {"keep_last": 2}}, {"mask": {"keep_last": 4}}, {"mask_ip": {"v4_prefix": 16}}, "mask_ip",
        {"pseudonymize": {"key": "a", "domain": "d"}}, {"pseudonymize": {"key": "b", "domain": "d"}},
        {"encrypt": {"key": "a"}}, {"date_truncate": {"unit": "week"}}, {"date_truncate": {"unit": "month"}},
        {"date_truncate": {"unit": "year"}}, {"date_truncate": {"unit": "year", "tz": "Europe/Berlin"}},
        {"geo": {"geohash": 3}}, {"geo": {"geohash": 6}}, {"geo": {"decimals": 1}}, {"age": {"cap": 50}}, "age",
        "scrub_text", {"scrub_text": {"detectors": ["email"]}},
    )
]  # fmt: skip
rules = st.sampled_from(RULES)
TOKEN = {"pseudonymize": {"key": "c", "domain": "a"}}
KEPT = [{"keep": {"reason": "r", "owner": "o", "expires": day}} for day in ("2026-12-01", "2027-12-01")]
TAGGED = st.sampled_from(["drop", "redact", "nullify", TOKEN, *KEPT, {"mask": {"keep_last": 3}}])
SIMPLE = TAGGED | st.sampled_from(["keep", {"truncate": {"length": 1}}])
TOPICS = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["keep", "drop", TOKEN]),
        "headers": st.lists(st.sampled_from("ab"), unique=True),
        "fields": st.dictionaries(
            st.sampled_from(["id", "email", "**", "items.{}[]", "next.*", "born"]), SIMPLE, max_size=3
        ),
    }
)
# Policies that speak of the schema above, or of nothing.
policies = st.fixed_dictionaries(
    {
        "policy": st.just("p"),
        "version": st.just(1),
        "default": st.sampled_from(["drop", "redact", "nullify"]),
        "tags": st.dictionaries(st.just("PII"), TAGGED),
        "topics": st.dictionaries(st.sampled_from(["orders", "o.*", "payments"]), TOPICS),
    }
).map(Policy.model_validate)
some = settings(max_examples=examples(50))


@given(rules, rules)
def test_the_comparison_of_rules_is_reflexive_and_mirrored(one, other):
    """A rule is the same as itself, and swapping two rules swaps looser and stricter."""
    assert compare_rules(one, one) is Strictness.SAME
    assert compare_rules(other, one) is MIRRORED.get(compare_rules(one, other), compare_rules(one, other))


@given(rules, rules, rules)
def test_stricter_is_transitive(one, two, three):
    """What is at least as strict as something that is at least as strict as a third is so too."""
    fine = (Strictness.SAME, Strictness.STRICTER)
    if compare_rules(one, two) in fine and compare_rules(two, three) in fine:
        assert compare_rules(one, three) in fine


@pytest.mark.parametrize(
    ("finer", "coarser"),
    [
        ({"truncate": {"length": 5}}, {"truncate": {"length": 2}}),
        ({"age": {"cap": 90}}, {"age": {"cap": 50}}),
        ({"date_truncate": {"unit": "day"}}, {"date_truncate": {"unit": "month"}}),
        ({"geo": {"geohash": 6}}, {"geo": {"geohash": 3}}),
        ({"mask_ip": {"v4_prefix": 24, "v6_prefix": 64}}, {"mask_ip": {"v4_prefix": 24, "v6_prefix": 48}}),
        ("redact", "nullify"),
        ({"redact": {"value": "x"}}, "nullify"),
        ({"mask": {"keep_last": 2}}, "redact"),
        ({"truncate": {"length": 5}}, {"truncate": {"length": 0}}),
        ({"mask_ip": {"v4_prefix": 31}}, {"mask_ip": {"v4_prefix": 16}}),
        ("keep", {"mask": {"keep_last": 2}}),
        ({"pseudonymize": {"key": "a", "domain": "d"}}, "redact"),
        ({"bucket": {"size": 1.5}}, {"bucket": {"size": 4.5}}),
        ({"bucket": {"size": 0.1}}, {"bucket": {"ranges": [-0.3, 0.7, 5]}}),
        ({"bucket": {"ranges": [0, 1, 2]}}, {"bucket": {"ranges": [0, 2]}}),
        ({"bucket": {"size": 2}}, {"bucket": {"ranges": [0, 2]}}),
        ({"lookup": {"table": {"1": "a", "2": "b", "3": "c"}}}, {"lookup": {"table": {"1": "a", "2": "b", "3": "b"}}}),
        ({"lookup": {"table": {"1": "a", "2": "b"}}}, {"lookup": {"table": {"2": "b"}}}),
    ],
)
def test_what_follows_from_the_finer_result_is_stricter(finer, coarser):
    """Every order that is claimed."""
    one, other = (TypeAdapter(Rule).validate_python(rule) for rule in (finer, coarser))
    assert compare_rules(one, other) is Strictness.STRICTER


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"date_truncate": {"unit": "week"}}, {"date_truncate": {"unit": "month"}}),
        ({"date_truncate": {"unit": "day"}}, {"date_truncate": {"unit": "day", "tz": "Europe/Berlin"}}),
        ({"geo": {"decimals": 2}}, {"geo": {"decimals": 1}}),
        ({"mask_ip": {"v4_prefix": 24, "v6_prefix": 48}}, {"mask_ip": {"v4_prefix": 16, "v6_prefix": 64}}),
        ({"encrypt": {"key": "a"}}, {"encrypt_deterministic": {"key": "a"}}),
        ("mask_email", "mask"),
        # The other one is of a higher class, and shows what this one hides.
        ({"mask": {"keep_first": 5}}, {"mask": {"keep_first": 4}}),
        ({"mask": {"keep_first": 5}}, {"mask": {"keep_last": 4}}),
        ({"mask_ip": {"v4_prefix": 8, "v6_prefix": 127}}, {"mask_ip": {"v4_prefix": 24, "v6_prefix": 48}}),
        ({"mask_url": {"parts": ["host", "path", "query"]}}, {"mask_url": {"parts": ["path", "query", "fragment"]}}),
        ({"mask_email": {"parts": ["domain"]}}, {"mask_email": {"parts": ["local"]}}),
        ({"geo": {"decimals": 3}}, {"geo": {"geohash": 6}}),
        ({"bucket": {"ranges": [0, 1]}}, {"bucket": {"ranges": [0, 10, 20, 30, 40]}}),
        ({"bucket": {"size": 1000}}, {"bucket": {"ranges": [10, 20, 30]}}),
        ({"bucket": {"size": 2}}, {"bucket": {"size": 14.00001}}),
        ({"lookup": {"table": {"1": "a", "42": "x", "7": "x"}}}, {"lookup": {"table": {"42": "p", "7": "q"}}}),
        ({"lookup": {"table": {"a": "x", "b": "x"}}}, {"lookup": {"table": {"a": "a", "b": "a"}}}),
        ({"lookup": {"table": {"1": "a", "2": "b"}}}, {"lookup": {"table": {"1": "Jane", "2": "Joe"}}}),
        # Texts that it has anyway stand for other values.
        ({"lookup": {"table": {"z": "z", "p": "q", "x": "p"}}}, {"lookup": {"table": {"z": "z", "p": "p", "x": "q"}}}),
        ({"lookup": {"table": {"z": "z", "p": "q", "x": "p"}}}, {"lookup": {"table": {"z": "z", "p": "p"}}}),
        ({"lookup": {"table": {"Jane": "a1", "Joe": "b2"}}}, {"lookup": {"table": {"Jane": "b2", "Joe": "a1"}}}),
        ({"regex_replace": {"pattern": ".*", "replacement": "x"}}, {"mask": {"keep_first": 2, "keep_last": 2}}),
        ("scrub_text", {"pseudonymize": {"key": "a", "domain": "d"}}),
        ({"pseudonymize": {"key": "a", "domain": "d"}}, {"mask": {"keep_last": 2}}),
        ({"encrypt": {"key": "a"}}, {"pseudonymize": {"key": "a", "domain": "d"}}),
        ("keep", {"date_shift": {"entity": "user", "days": 30, "key": "a"}}),
    ],
)
def test_what_does_not_follow_is_other(one, other):
    """Weeks do not fill months, rounding twice is not rounding once, half an order is none, and a class proves nothing.

    What looks at another field tells of that field, too.
    """
    rules = [TypeAdapter(Rule).validate_python(rule) for rule in (one, other)]
    assert compare_rules(*rules) is Strictness.OTHER


@some
@given(policies, st.booleans())
@pytest.mark.slow
def test_a_policy_compared_with_itself_changes_nothing(policy, with_schema):
    """Reflexive, whatever day a `keep` ends, with and without a schema."""
    changes = policy_changes(policy, policy, ORDERS if with_schema else [], TODAY)
    assert {change.verdict for change in changes} <= {Strictness.SAME}


@some
@given(policies, policies, st.booleans())
@pytest.mark.slow
def test_loosening_is_tightening_seen_from_the_other_side(one, other, with_schema):
    """Place by place, swapping old and new mirrors the verdict."""
    schemas = ORDERS if with_schema else []
    there = {change[:2]: change.verdict for change in policy_changes(one, other, schemas, TODAY)}
    back = {change[:2]: change.verdict for change in policy_changes(other, one, schemas, TODAY)}
    assert back == {place: MIRRORED.get(verdict, verdict) for place, verdict in there.items()}


def verdicts(old, new, schemas=ORDERS, today=TODAY):
    """What changed, by place, without what stayed the same."""
    head = "policy: p\nversion: 1\n"
    changes = policy_changes(parse_policy(head + old), parse_policy(head + new), schemas, today)
    return {change.path: change.verdict.value for change in changes if change.verdict is not Strictness.SAME}


TOPIC = "topics: {{orders: {{fields: {{id: {}}}}}}}"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("drop", "keep", "looser"),
        ("keep", "drop", "stricter"),
        ("redact", "{mask: {keep_last: 2}}", "looser"),
        ("{mask: {keep_last: 4}}", "{mask: {keep_last: 2}}", "other"),  # a text of five was hidden, and is not any more
        ("{mask: {keep_last: 2}}", "{mask: {keep_last: 4}}", "other"),
        ("{pseudonymize: {key: a, domain: d}}", "{pseudonymize: {key: b, domain: d}}", "other"),
        ("{pseudonymize: {key: a, domain: d}}", "{pseudonymize: {key: a, domain: e}}", "other"),
        ("{pseudonymize: {key: a, domain: d}}", "{encrypt: {key: a}}", "other"),
        ("nullify", "redact", "looser"),
    ],
)
def test_a_field_is_judged_by_what_is_left(old, new, verdict):
    """By what is proved alone; everything else is `other`, which loosens."""
    assert verdicts(TOPIC.format(old), TOPIC.format(new))["id"] == verdict
    assert Strictness(verdict).loosens is (verdict != "stricter")


def test_a_later_end_of_a_keep_is_a_loosening_from_the_earlier_one():
    """`expires` extended by a year: nothing differs today, and from the old day on it does."""
    keep = "{{keep: {{reason: r, owner: o, expires: {}}}}}"
    old, new = (TOPIC.format(keep.format(day)) for day in ("2026-12-01", "2027-12-01"))
    before, after = (parse_policy(f"policy: p\nversion: 1\n{text}") for text in (old, new))
    found = [one for one in policy_changes(before, after, ORDERS, TODAY) if one.verdict is not Strictness.SAME]
    assert [(one.path, one.verdict, one.since) for one in found] == [("id", Strictness.LOOSER, date(2026, 12, 1))]
    unseen = [one for one in policy_changes(before, after, (), TODAY) if one.verdict is not Strictness.SAME]
    assert [(one.path, one.verdict, one.since) for one in unseen] == [
        ('topics."orders".fields.id', Strictness.OTHER, date(2026, 12, 1))
    ]
    assert verdicts(new, old)["id"] == "stricter"
    assert verdicts(old, new, today=date(2028, 1, 1)) == {}


def test_a_later_end_of_a_default_is_a_loosening_too():
    """`default: keep` of a topic has a day as every other `keep`; with and without a schema."""
    old = "topics: {orders: {default: {keep: {reason: r, owner: o, expires: 2026-12-01}}}}"
    new = old.replace("2026", "2027")
    assert verdicts(old, new, [])['topics."orders".default'] == "looser"
    assert verdicts(old, new)["id"] == "looser"
    assert verdicts(new, old)["id"] == "stricter"
    assert verdicts(old, new, today=date(2028, 1, 1)) == {}


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ("default: drop", "default: redact", {"default": "looser"}),
        ("tags: {PII: drop}", "tags: {PII: redact}", {"tags.PII": "looser"}),
        ("tags: {PII: drop}", "tags: {}", {}),
        ("tags: {PII: redact}", "tags: {}", {"tags.PII": "stricter"}),
        ("topics: {a: {key: drop}}", "topics: {a: {key: keep}}", {'topics."a".key': "looser"}),
        ("topics: {a: {headers: [x]}}", "topics: {a: {headers: [x, y]}}", {'topics."a".headers.y': "looser"}),
        ("topics: {a: {headers: [x]}}", "topics: {a: {headers: []}}", {'topics."a".headers.x': "stricter"}),
        ("topics: {a: {default: drop}}", "topics: {a: {default: keep}}", {'topics."a".default': "looser"}),
        ("topics: {a: {format: long}}", "topics: {a: {format: string}}", {'topics."a".format': "other"}),
        (
            "topics: {a: {drop_record: [{edge: [eu]}, {edge: [us]}]}}",
            "topics: {a: {drop_record: [{edge: [us]}]}}",
            {'topics."a".drop_record': "looser"},
        ),
        (
            "topics: {a: {drop_record: [{edge: [eu]}]}}",
            "topics: {a: {drop_record: [{edge: [us]}]}}",
            {'topics."a".drop_record': "other"},
        ),
        ("topics: {a: {}}", "topics: {a: {drop_record: [{edge: [us]}]}}", {'topics."a".drop_record': "stricter"}),
        ("topics: {a: {}}", "topics: {a: {value_format: json}}", {'topics."a".value_format': "other"}),
        ("topics: {}", "topics: {a: {fields: {x: keep}}}", {'topics."a"': "other"}),
        ("topics: {}", "topics: {a: {fields: {x: drop}}}", {'topics."a"': "stricter"}),
        ("topics: {a: {fields: {x: drop}}}", "topics: {}", {'topics."a"': "looser"}),
        ("topics: {a: {}}", "topics: {a: {fields: {x: redact}}}", {'topics."a".fields.x': "other"}),
        ("topics: {a: {}}", "topics: {a: {fields: {x: drop}}}", {'topics."a".fields.x': "stricter"}),
    ],
)
def test_what_is_written_is_compared_without_a_schema(old, new, places):
    """Defaults, tags, keys, headers, formats and patterns have lines of their own."""
    assert verdicts(old, new, []) == places


@pytest.mark.parametrize("schemas", [ORDERS, []])
def test_what_is_written_is_compared_whatever_schemas_are_given(schemas):
    """A path that repeats what a tag did changes no field of these; of another topic, or of tomorrow, nobody knows."""
    old = 'tags: {PII: redact}\ntopics: {"orders|refunds": {}}'
    new = 'tags: {PII: redact}\ntopics: {"orders|refunds": {fields: {email: redact, secret: keep, "deep.**": keep}}}'
    assert verdicts(old, new, schemas) == {
        'topics."orders|refunds".fields.email': "other",
        'topics."orders|refunds".fields.secret': "looser",
        'topics."orders|refunds".fields.deep.**': "looser",
    }


def test_several_days_are_told_as_one():
    """Looser on one day and stricter on another is neither."""
    assert combine_verdicts([Strictness.SAME, Strictness.LOOSER, Strictness.LOOSER]) is Strictness.LOOSER
    assert combine_verdicts([Strictness.STRICTER, Strictness.LOOSER]) is Strictness.OTHER
    assert combine_verdicts([]) is Strictness.SAME


def test_record_keys_are_compared_by_their_schema():
    """The rule of the key and the tags of its schema decide its fields."""
    key = [WriterSchema("orders", SCHEMA, "key")]
    found = verdicts("topics: {orders: {key: drop}}", "topics: {orders: {key: keep}}", key)
    assert found["@key.id"] == "looser"
    assert "@key.email" not in found  # tagged: a `keep` without a reason opens nothing


WHOLE = "topics: {{log: {{value_format: text, value: {}}}}}"


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("drop", "{keep: {reason: r, owner: o, expires: 2027-01-01}}", "looser"),
        ("{keep: {reason: r, owner: o, expires: 2027-01-01}}", "drop", "stricter"),
        ("{keep: {reason: r, owner: o, expires: 2027-01-01}}", "redact", "other"),
        ("{keep: {reason: r, owner: o, expires: 2020-01-01}}", "drop", "same"),
        ("{pseudonymize: {key: a, domain: d}}", "{pseudonymize: {key: b, domain: d}}", "other"),
        ("{scrub_text: {reason: r, owner: o, expires: 2027-01-01}}",
         "{scrub_text: {reason: r, owner: o, expires: 2028-01-01}}", "looser"),
        ("redact", "{pseudonymize: {key: a, domain: d}}", "looser"),
    ],
)  # fmt: skip
def test_a_whole_value_is_judged_like_a_key(old, new, verdict):
    """By what its rule leaves, over all days on which one of them ends; without one nothing is left."""
    assert verdicts(WHOLE.format(old), WHOLE.format(new), []).get('topics."log".value', "same") == verdict
    assert verdicts("topics: {log: {value_format: text}}", WHOLE.format("drop"), []) == {}


@pytest.mark.parametrize(
    "beside",
    [
        '"log.": {value_format: text, value: {mask_ip: {v4_prefix: 24, v6_prefix: 40}}}',
        '"lo.*|x": {fields: {"**": {mask_ip: {v4_prefix: 24, v6_prefix: 40}}}}',
    ],
)
def test_a_whole_value_of_several_rules_is_judged_like_one_that_nobody_has_seen(beside):
    """The rule that takes over may leave more, or another part; a pattern that names no such topic changes nothing."""
    text = "topics: {log: {value_format: text, value: {mask_ip: {v4_prefix: %d, v6_prefix: 48}}}, %s}"
    assert verdicts(text % (9, beside), text % (1, beside), []) == {'topics."log".value': "other"}
    apart = beside.replace("log.", "logs").replace("lo.*", "logs")
    assert verdicts(text % (9, apart), text % (1, apart), []) == {'topics."log".value': "stricter"}


J = "reason: r, owner: o, expires: "


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        (f"{{truncate: {{length: 5, {J}2027-01-01}}}}", f"{{keep: {{{J}2026-11-01}}}}", "stricter"),
        (f"{{keep: {{{J}2026-11-01}}}}", f"{{truncate: {{length: 5, {J}2027-01-01}}}}", "looser"),
        (f"{{truncate: {{length: 3, {J}2026-01-01}}}}", f"{{truncate: {{length: 900, {J}2026-01-01}}}}", None),
        ("drop", f"{{keep: {{{J}2026-01-01}}}}", None),
    ],
)
def test_an_ended_rule_beside_another_one_is_a_drop(old, new, verdict):
    """The other pattern's rule does not count where it has ended."""
    beside = f'"log.": {{value_format: text, value: {{truncate: {{length: 500, {J}2030-01-01}}}}}}'
    before, after = (f"topics: {{logs: {{value_format: text, value: {one}}}, {beside}}}" for one in (old, new))
    assert verdicts(before, after, []) == ({'topics."logs".value': verdict} if verdict else {})


def test_another_end_may_let_another_rule_count():
    """Of two tags' rules of one operator."""
    text = f"tags: {{A: {{mask: {{keep_first: 4, {J}2027-01-01}}}}, B: {{mask: {{keep_last: 4, {J}%s}}}}}}"
    assert verdicts(text % "2028-01-01", text % "2026-12-01", []) == {"tags.B": "other"}


def test_a_pattern_that_only_closes_may_end_what_another_one_lifts():
    """A tag is lifted where all patterns that match say so."""
    lifts = "lifts: {x: {tags: [PII], reason: r, owner: o}}"
    old = f"tags: {{PII: {{mask: {{keep_last: 4}}}}}}\ntopics: {{orders: {{{lifts}}}%s}}"
    assert verdicts(old % "", old % ', "order.*": {fields: {y: drop}}', []) == {'topics."order.*"': "other"}
    assert verdicts(old % "", old % ', "bills.*": {fields: {y: drop}}', []) == {'topics."bills.*"': "stricter"}


def test_a_reason_decides_nothing():
    """Of two rules of one operator, whatever the letters of their reasons are."""
    text = 'topics: {orders: {fields: {id: {%s}}}, "order.": {fields: {id: {%s}}}}'
    rule = "truncate: {length: %d, reason: %s, owner: o, expires: 2030-01-01}"
    old, new = (text % (rule % (5, reason), rule % (500, "m")) for reason in "az")
    assert verdicts(old, new) == verdicts(old, new, []) == {}


def test_a_schema_that_reads_no_value_decides_nothing():
    """Another pattern says that the topic's values are JSON."""
    text = 'tags: {PII: drop}\ntopics: {orders: {fields: {email: %s}}, "order.": {value_format: json}}'
    assert verdicts(text % "mask", text % "keep") == {'topics."orders".fields.email': "other"}


def test_samples_are_tried_once_for_each_pair_of_rules():
    """A short schema means hundreds of places; two rules that meet at all of them are tried once."""
    shape = {"type": "record", "name": "R8", "fields": [{"name": "a", "type": "string"}]}
    for n in reversed(range(8)):
        fields = [{"name": "a", "type": shape}, {"name": "b", "type": f"R{n + 1}"}]
        shape = {"type": "record", "name": f"R{n}", "fields": fields}
    places = {"52.5200,13.4050": "b", "52.5211,13.4111": "b"}
    old, new = (parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{'**': {json.dumps(rule)}}}}}}}")
                for rule in ({"lookup": {"table": places}}, {"geo": {"decimals": 2}}))  # fmt: skip
    compare_on_samples.cache_clear()
    changes = policy_changes(old, new, [WriterSchema("orders", json.dumps(shape))], TODAY)
    assert sum(change.proof == "sample" for change in changes) > 100
    met = compare_on_samples.cache_info()
    assert met.hits > 100
    assert met.misses <= 10


def test_a_shape_that_a_rule_opens_is_a_loosening():
    """A tree of records that hold nothing but each other has no leaf whose rule could have changed."""
    tree = {"type": "record", "name": "T", "fields": [{"name": "kids", "type": {"type": "array", "items": "T"}}]}
    fields = [{"name": "ok", "type": "string"}, {"name": "tree", "type": tree}]
    schemas = [WriterSchema("orders", json.dumps({"type": "record", "name": "R", "fields": fields}))]
    old, new = (
        parse_policy(f"policy: p\nversion: 1\ntopics: {{orders: {{fields: {{ok: keep{more}}}}}}}")
        for more in ("", ", tree: keep")
    )
    assert {one.path: one.verdict.value for one in policy_changes(old, new, schemas, TODAY)}["tree"] == "looser"
    assert {one.path: one.verdict.value for one in policy_changes(new, old, schemas, TODAY)}["tree"] == "stricter"


BEYOND = [
    # Without a schema nobody knows whether a field is tagged: there an unreasoned `keep` is void, and so is a wildcard
    # that takes less than the tag.
    ("email: keep", "email: {pseudonymize: {key: a, domain: d}}", "other"),
    ("email: keep", "email: redact", "other"),
    ("'**': {pseudonymize: {key: a, domain: d}}", "'**': {mask: {keep_last: 4}}", "other"),
    ("email: keep", "email: {keep: {reason: r, owner: o, expires: 2027-01-01}}", "other"),
    ("email: {truncate: {length: 5}}", "email: {truncate: {length: 0}}", "other"),
    # Nor which type it has: what does not take it drops, and `redact` takes it.
    ("email: mask", "email: redact", "other"),
    # What has ended closes its field, also below an open wildcard; nothing in its place does not.
    ("email: {keep: {reason: r, owner: o, expires: 2020-01-01}}", "", "other"),
    ("email: {keep: {reason: r, owner: o, expires: 2020-01-01}}", "email: drop", "stricter"),
    ("email: {keep: {reason: r, owner: o, expires: 2020-01-01}}",
     "email: {mask: {reason: r, owner: o, expires: 2020-01-01}}", "same"),
    ("email: {mask: {reason: r, owner: o, expires: 2027-01-01}}",
     "email: {mask: {reason: s, owner: p, expires: 2027-01-01}}", "same"),
    ("email: keep", "", "stricter"),
    ("email: keep", "email: drop", "stricter"),
    ("email: redact", "email: nullify", "stricter"),
    ("email: drop", "email: mask", "looser"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "verdict"), BEYOND)
def test_without_a_schema_a_verdict_holds_for_whatever_may_come(old, new, verdict):
    """For every type, every tag and every other rule that may meet there; the other way round it is mirrored."""
    before, after = (f"tags: {{PII: drop}}\ntopics: {{orders: {{fields: {{{fields}}}}}}}" for fields in (old, new))
    mirror = {"stricter": "looser", "looser": "stricter"}
    assert {*verdicts(before, after, []).values()} == {verdict} - {"same"}
    assert {*verdicts(after, before, []).values()} == {mirror.get(verdict, verdict)} - {"same"}


@pytest.mark.parametrize(
    ("pattern", "path", "more", "told"),
    [
        ("orders", "id", "", {"id": "stricter"}),
        ("orders|refunds", "id", "", {"id": "stricter", 'topics."orders|refunds".fields.id': "other"}),
        ("orders.*", "id", "", {"id": "stricter", 'topics."orders.*".fields.id': "other"}),
        ("orders", "**", "", {"id": "stricter", 'topics."orders".fields.**': "other"}),
        ("orders", "elsewhere", "", {'topics."orders".fields.elsewhere': "other"}),
        ("orders", "id", "value_format: json, ", {'topics."orders".fields.id': "other"}),
    ],
    ids=["its schema is there", "another topic", "any topic", "any field", "no such field", "no schema decides"],
)
def test_a_field_is_judged_by_its_schema_where_no_other_can_have_it(pattern, path, more, told):
    """A token instead of `keep` is stricter for a field without a tag; what nobody has seen may have one."""
    text = f"topics: {{{json.dumps(pattern)}: {{{more}fields: {{{json.dumps(path)}: %s}}}}}}"
    found = verdicts(text % "keep", text % json.dumps(TOKEN))
    assert {path: one for path, one in found.items() if path == "id" or path.startswith("topics.")} == told


@pytest.mark.parametrize("beside", [False, True], ids=["inherited", "beside the schema"])
def test_a_tag_that_no_text_shows_counts(beside):
    """A `keep` without a reason was void on that field, so that a token opens it."""
    text, tagged = (
        json.dumps({"type": "record", "name": "R", "fields": [{"name": "id", "type": "string", **more}]})
        for more in ({}, {"confluent:tags": ["PII"]})
    )
    earlier = () if beside else (SchemaVersion("orders-value", 1, 1, tagged), SchemaVersion("orders-value", 2, 2, text))
    schema = WriterSchema("orders", text, "value", (("**.id", frozenset(["PII"])),) if beside else (), earlier)
    policies = "tags: {PII: drop}\ntopics: {orders: {fields: {id: %s}}}"
    assert verdicts(policies % "keep", policies % json.dumps(TOKEN), [schema]) == {"id": "looser"}


def test_a_pattern_without_a_name_is_compared():
    """`^$` and an empty one are patterns of no topic."""
    text = 'topics: {"": {fields: {id: %s}}}'
    assert verdicts(text % "drop", text % "keep") == {'topics."".fields.id': "looser"}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [("keep", TOKEN, "other"), (TOKEN, "keep", "other"), ("keep", "drop", "stricter"), ("drop", TOKEN, "looser")],
)
def test_a_key_is_compared_for_keys_that_may_have_tags(old, new, verdict):
    """A `keep` of a key is void on its tagged fields, which a token would open."""
    before, after = (f"topics: {{a: {{key: {json.dumps(rule)}}}}}" for rule in (old, new))
    assert verdicts(before, after, []) == {'topics."a".key': verdict}


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("{mask: {keep_last: 2}}", "redact", "other"),
        ("drop", "redact", "looser"),
        ("{mask: {keep_last: 2, reason: r, owner: o, expires: 2020-01-01}}",
         "{truncate: {length: 0, reason: r, owner: o, expires: 2020-01-01}}", None),
        ("{mask: {keep_last: 2, reason: r, owner: o, expires: 2020-01-01}}", "redact", "looser"),
    ],
)  # fmt: skip
def test_a_tag_is_compared_for_every_type(old, new, verdict):
    """What does not take a field's type drops it, and what has ended leaves it to the default."""
    found = verdicts(f"tags: {{PII: {old}}}", f"tags: {{PII: {new}}}", [])
    assert found == ({"tags.PII": verdict} if verdict else {})


def test_the_default_of_a_topic_also_closes_what_has_ended():
    """`keep` leaves that to the policy's default, so that a default which closes less than that may open something."""
    kept = "topics: {a: {default: keep, fields: {x: {keep: {reason: r, owner: o, expires: 2020-01-01}}}}}"
    assert verdicts(kept, kept.replace("default: keep", "default: redact"), []) == {'topics."a".default': "other"}
    assert verdicts(kept, kept.replace("default: keep", "default: drop"), []) == {'topics."a".default': "stricter"}


def union(*branches):
    """A schema with one field `a` of these branches."""
    return [WriterSchema("orders", json.dumps({"type": "record", "name": "R", "fields": [
        {"name": "a", "type": list(branches)}]}))]  # fmt: skip


TAGGED_TEXT = {"type": "string", "confluent:tags": ["PII"]}
PLAIN_ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}


@pytest.mark.parametrize(
    ("branches", "old", "new", "found"),
    [
        (["string", "long"], "a: mask", "a: redact", {"other"}),  # "7" and 7 were both `*`
        (["string", "long"], "a: redact", "a: mask", {"other"}),
        (["string", "long"], "a: mask", "a: drop", {"stricter"}),
        (["string", "long"], "a: mask", "a: nullify", {"stricter"}),
        (["string", "long"], "a: redact", "a: nullify", {"stricter"}),
        (["null", "string"], "a: mask", "a: redact", {"stricter"}),
        (["string", "double"], "a: mask", "a: drop", {"stricter", "same"}),  # no mask takes a double
        ([TAGGED_TEXT, PLAIN_ENUM], "a: {truncate: {length: 5}}", "a: {truncate: {length: 2}}", {"same", "other"}),
    ],
)
def test_branches_that_became_one_type_are_judged_together(branches, old, new, found):
    """Two values of two branches may have become one there, whatever each branch's rule says of its own values."""
    texts = [
        f"tags: {{PII: {{mask: {{keep_first: 4}}}}}}\ntopics: {{orders: {{fields: {{{rule}}}}}}}" for rule in (old, new)
    ]
    before, after = (parse_policy(f"policy: p\nversion: 1\n{text}") for text in texts)
    changes = policy_changes(before, after, union(*branches), TODAY)
    assert {change.verdict.value for change in changes if change.topic == "orders"} == found


NODE = {"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}
SHAPES = [
    {"type": "record", "name": "R", "fields": [{"name": "ok", "type": "string"}, {"name": "x", "type": shape}]}
    for shape in (
        NODE, "null", {"type": "array", "items": "null"}, {"type": "array", "items": NODE}, ["null", NODE],
        {"type": "map", "values": NODE}, {"type": "record", "name": "E", "fields": []},
    )
]  # fmt: skip


@pytest.mark.parametrize("shape", [*SHAPES, NODE, {"type": "array", "items": NODE}, {"type": "map", "values": "null"}])
def test_what_a_plan_explains_is_compared(shape):
    """Every row of a plan has a line: leaves, nulls that stand alone, and containers without leaves."""
    text = json.dumps(shape)
    for fields in ({}, {"x": "keep"}, {"**": "keep"}, {"next.next": "keep"}):
        topics = {"orders": {"fields": {"ok": "keep", **fields}}}
        policy = Policy.model_validate({"policy": "p", "version": 1, "topics": topics})
        rows = {row.path or "." for row in compile_plan(text, value_scope(policy, "orders"), TODAY).rows}
        lines = policy_changes(policy, policy, [WriterSchema("orders", text)], TODAY)
        assert rows <= {line.path for line in lines if line.topic == "orders"}


@pytest.mark.parametrize("shape", SHAPES)
def test_what_a_plan_explains_anew_is_a_loosening(shape):
    """Also where nothing but nulls is opened: how many there are, and how deep they lie, is a value."""
    text = json.dumps(shape)
    closed, opened = (
        Policy.model_validate({"policy": "p", "version": 1, "topics": {"orders": {"fields": {"ok": "keep", **more}}}})
        for more in ({}, {"x": "keep"})
    )
    before, after = (
        {(row.path, row.operator) for row in compile_plan(text, value_scope(policy, "orders"), TODAY).rows}
        for policy in (closed, opened)
    )
    changes = policy_changes(closed, opened, [WriterSchema("orders", text)], TODAY)
    lines = {change.path for change in changes if change.topic == "orders" and change.verdict is Strictness.LOOSER}
    assert lines >= {path for path, _ in after - before}


def test_the_cost_of_days_grows_with_what_ends_on_them():
    """Each of many fields ends on a day of its own: only what lies below it is compiled again on that day."""

    def compare(count):
        fields = [{"name": f"f{n}", "type": "string"} for n in range(count)]
        inner = {"type": "record", "name": "I", "fields": fields}
        text = json.dumps({"type": "record", "name": "R", "fields": [*fields, {"name": "r", "type": ["null", inner]}]})
        one, other = (
            {path: {"keep": {"reason": "r", "owner": "o", "expires": str(TODAY + timedelta(n + later))}}
             for n in range(count) for path in (f"f{n}", f"r.f{n}")}
            for later in (1, 2)
        )  # fmt: skip
        old, new = (
            Policy.model_validate({"policy": "p", "version": 1, "topics": {"orders": {"fields": fields}}})
            for fields in (one, other)
        )
        changes = policy_changes(old, new, [WriterSchema("orders", text)], TODAY)
        assert [change.since for change in changes if change.path == "r.f7"] == [TODAY + timedelta(8)]
        assert all(change.verdict is Strictness.LOOSER for change in changes if change.topic == "orders")

    assert grows_linearly(compare, 40)


DATED = st.sampled_from(["", "mask", "redact", *KEPT, {"truncate": {"length": 2, **KEPT[1]["keep"]}}])
DEEP = json.dumps({"type": "record", "name": "R", "fields": [
    {"name": "a", "type": "string"},
    {"name": "r", "type": ["null", {"type": "record", "name": "I", "fields": [
        {"name": "a", "type": ["string", "long"]}, {"name": "b", "type": "long", "confluent:tags": ["PII"]}]}]},
    {"name": "l", "type": {"type": "array", "items": "I"}},
    {"name": "m", "type": {"type": "map", "values": "I"}},
    {"name": "t", "type": {"type": "record", "name": "T", "fields": [
        {"name": "a", "type": "string"}, {"name": "more", "type": ["null", "T"]}]}},
]})  # fmt: skip
PATHS = [
    "a",
    "a.{}",
    "r.a",
    "r.b.{}",
    "r.*",
    "r.**",
    "l[].a",
    "l",
    "m.{}.a",
    "m.{key}",
    "m.{}",
    "t.a",
    "t.more.a",
    "t.**",
    "**",
]


@some
@given(st.dictionaries(st.sampled_from(PATHS), st.tuples(DATED, DATED), min_size=1, max_size=4))
@pytest.mark.slow
def test_a_slice_of_a_schema_tells_what_the_whole_tells(drawn):
    """Below the paths whose rules end on a day the pairs are those of the whole; no other one changes then."""
    topics = [{path: pair[side] for path, pair in drawn.items() if pair[side]} for side in (0, 1)]
    scopes = [
        value_scope(
            Policy.model_validate(
                {"policy": "p", "version": 1, "tags": {"PII": "drop"}, "topics": {"orders": {"fields": fields}}}
            ),
            "orders",
        )
        for fields in topics
    ]

    def pairs(schema, sides, day):
        return place_pairs(*(compile_plan(schema, scope, day) for scope in sides))

    for day in (date(2026, 12, 1), date(2027, 12, 1)):
        ended = [rule for scope in scopes for rule in scope.rules if getattr(rule.rule, "expires", None) == day]
        parts = {literal_part(rule.steps) for rule in ended}
        before, whole = pairs(DEEP, scopes, day - timedelta(1)), pairs(DEEP, scopes, day)
        cut = SchemaSlices(parse(DEEP)).slice_of(parts)
        found = pairs(cut.schema, [ScopeSlices(scope).slice_of(cut.parts) for scope in scopes], day) if parts else {}
        part = {(path, cut.sources.get(node, node)): pairs for (path, node), pairs in found.items()}
        assert all(whole.get(place) == pairs for place, pairs in part.items())
        assert {place for place in whole if whole[place] != before[place]} <= part.keys()
