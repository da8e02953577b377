"""What can leave a value whole is a `keep`, whatever it is called: it needs a reason on what is tagged."""

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import ConfigError
from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.descriptor import PrivacyClass
from aggregator.privacy.policy.file import parse_policy
from aggregator.privacy.policy.rules import privacy_class
from aggregator.privacy.policy.strictness import Strictness, compare_rules
from aggregator.privacy.review.diff import WriterSchema, policy_changes
from aggregator.privacy.review.sample_strictness import compare_on_samples
from aggregator.schema.avro import Kind
from tests.unit.privacy.operators.single import DOUBLE, TEXT, one, rule

TODAY = date(2026, 11, 21)
# Operator, parameters, and a value that passes it whole, or nearly.
WHOLE = [
    ("truncate", {"length": 100_000}, "jane@example.com"),
    ("truncate", {"length": 4}, "jane"),
    ("lookup", {"table": {"jane": "jane"}}, "jane"),
    ("mask", {"keep_first": 15}, "4111 1111 1111 *"),
    ("mask_email", {"parts": ["domain"]}, "jane@***"),
    ("mask_url", {"parts": ["host"]}, "https://***/jane"),
    ("mask_ip", {"v4_prefix": 31}, "192.0.2.8"),
    ("mask_ip", {"v6_prefix": 127}, "2001:db8::8"),
    ("geo", {"decimals": 6}, "52.520008,13.404954"),
    ("regex_replace", {"pattern": "(.*)", "replacement": "\\1"}, "jane"),
    ("scrub_text", {}, "jane"),
]
NEARLY = [
    ("round", {"digits": 15}), ("round", {"digits": 0}), ("bucket", {"size": 1e-9}), ("bucket", {"size": 1}),
    ("bucket", {"ranges": [1, 2, 3]}), ("bucket", {"size": 1.5}), ("bucket", {"ranges": [0.5, 2, 3.5, 5]}),
    ("bucket", {"ranges": [2**24, 2**24 + 2]}), ("bucket", {"ranges": [-1e10, -1e10 + 1000]}),
    ("bucket", {"ranges": [-(2**31) + 1, 0]}), ("bucket", {"ranges": [0, 2**31 - 1]}),
    ("bucket", {"ranges": [-3e9, -(2**31) + 0.5]}), ("bucket", {"ranges": [2**31 - 1.5, 3e9]}),
    ("geo", {"geohash": 9}), ("date_truncate", {"unit": "minute"}), ("date_truncate", {"unit": "day"}),
    ("custom", {"name": "same", "type": "string"}),
]  # fmt: skip
TAGGED = '{"type": "record", "name": "R", "fields": [{"name": "x", "type": "string", "confluent:tags": ["PII"]}]}'


@pytest.mark.parametrize(("name", "parameters", "value"), WHOLE)
def test_what_can_leave_a_value_whole_is_clear(name, parameters, value):
    """The value passes it, and its class says so."""
    made = rule(name, **parameters)
    assert one(made, value, TEXT) == value
    assert privacy_class(made) is PrivacyClass.CLEAR


@pytest.mark.parametrize(("name", "parameters"), NEARLY)
def test_what_leaves_all_but_nothing_is_clear(name, parameters):
    """Intervals of one, digits behind the point, a place to the metre, a day of a birth."""
    assert privacy_class(rule(name, **parameters)) is PrivacyClass.CLEAR


@pytest.mark.parametrize(("name", "parameters"), [(name, more) for name, more, *_ in [*WHOLE, *NEARLY]])
def test_a_tag_takes_it_with_a_reason_only(name, parameters):
    """As a tag's rule it is refused, as a path's it is void on a tagged field, until it has a reason and an end."""
    justified = {**parameters, "reason": "r", "owner": "o", "expires": "2027-01-01"}
    policy = "policy: p\nversion: 1\ntags: {{PII: {}}}\ntopics: {{orders: {{fields: {{x: {}}}}}}}"
    with pytest.raises(ConfigError, match="only with `reason`, `owner` and `expires`"):
        parse_policy(policy.format({name: parameters}, "drop"))
    parse_policy(policy.format({name: justified}, "drop"))
    plain, opened = (parse_policy(policy.format("drop", {name: more})) for more in (parameters, justified))
    schemas = [WriterSchema("orders", TAGGED)]
    before = [change.before for change in policy_changes(plain, plain, schemas, TODAY) if change.path == "x"]
    after = [change.before for change in policy_changes(opened, opened, schemas, TODAY) if change.path == "x"]
    assert before == ["drop: removed"]
    takes_text = name not in ("round", "bucket", "date_truncate") and name != "custom"
    assert after[0].startswith(name if takes_text or name == "custom" else "drop")


@pytest.mark.parametrize(("name", "parameters"), [(name, more) for name, more, *_ in [*WHOLE, *NEARLY]])
def test_the_way_from_a_token_to_it_is_a_loosening(name, parameters):
    """Nobody is told that a token became stricter, nor that what it became does when it is a token again."""
    token = rule("pseudonymize", key="k", domain="d")
    assert compare_rules(token, rule(name, **parameters)) is Strictness.OTHER
    assert compare_rules(rule(name, **parameters), token) is Strictness.OTHER


@pytest.mark.parametrize(
    ("name", "parameters"), [("round", {"digits": -1}), ("round", {"digits": -9}), ("bucket", {"size": 2})]
)
def test_what_leaves_long_numbers_apart_is_a_pseudonym(name, parameters):
    """Of a thousand ids nearly all stay apart; a number of ranges that is fixed bounds what is left of any type."""
    made = rule(name, **parameters)
    ids = [number * 10**14 + 7 for number in range(1000)]
    assert len({one(made, number, Leaf(Kind.LONG)) for number in ids}) == 1000
    assert privacy_class(made) is PrivacyClass.PSEUDONYMOUS
    assert compare_rules(rule("redact"), made) is Strictness.LOOSER
    ranged = rule("bucket", ranges=[0, 10, 10**17])
    assert len({one(ranged, number, Leaf(Kind.LONG)) for number in ids}) <= 4
    assert privacy_class(ranged) is PrivacyClass.IRREVERSIBLE


def test_a_table_that_tells_its_value_is_reversible():
    """A text that one value alone becomes tells that value; what several become does not."""
    assert privacy_class(rule("lookup", table={"DE": "EU", "US": "NA"})) is PrivacyClass.REVERSIBLE
    assert privacy_class(rule("lookup", table={"DE": "EU", "FR": "EU"})) is PrivacyClass.IRREVERSIBLE


def test_a_sample_tells_what_rules_do_not_and_says_so():
    """Two masks of one class: what leaves more is found by trying, and the change names its proof.

    That another operator leaves less is proved by no sample.
    """
    text = "policy: p\nversion: 1\ntopics: {{orders: {{fields: {{x: {}}}}}}}"
    schemas = [WriterSchema("orders", TAGGED.replace("confluent:tags", "other"))]
    places = '{lookup: {table: {"52.5200,13.4050": b, "52.5211,13.4111": b}}}'
    old, new = (parse_policy(text.format(rule)) for rule in ("{geo: {decimals: 2}}", places))
    (found,) = [one for one in policy_changes(old, new, schemas, TODAY) if one.path == "x"]
    assert (found.verdict, found.proof) == (Strictness.OTHER, "none")
    (found,) = [one for one in policy_changes(new, old, schemas, TODAY) if one.path == "x"]
    assert (found.verdict, found.proof) == (Strictness.LOOSER, "sample")
    old, new = (parse_policy(text.format(rule)) for rule in ("{mask: {keep_last: 2}}", "{mask: {keep_last: 4}}"))
    (found,) = [one for one in policy_changes(old, new, schemas, TODAY) if one.path == "x"]
    assert (found.verdict, found.proof) == (Strictness.OTHER, "none")


@pytest.mark.parametrize(
    ("before", "after", "leaf"),
    [
        (("geo", {"decimals": 2}), ("lookup", {"table": {"a": "b", "c": "b"}}), TEXT),
        (("mask", {}), ("lookup", {"table": {"zoe": "girl", "zac": "boy", "zed": "boy"}}), TEXT),
        (("bucket", {"size": 10}), ("bucket", {"ranges": [0, 10, 123_456_789]}), Leaf(Kind.LONG)),
        (("bucket", {"size": 1000}), ("bucket", {"ranges": [-5000, 77_000_123]}), DOUBLE),
    ],
)
def test_what_a_rule_names_is_in_the_sample(before, after, leaf):
    """A table or an interval that tells values apart that no general sample holds is not called the stricter one."""
    first, second = rule(before[0], **before[1]), rule(after[0], **after[1])
    assert compare_on_samples(first, second, leaf) is compare_on_samples(second, first, leaf) is Strictness.OTHER


RULES = (
    [("mask", {"keep_last": n}) for n in range(4)]
    + [("round", {"digits": -n}) for n in (1, 2)]
    + [("bucket", {"size": 10})]
)


@given(st.sampled_from(RULES), st.sampled_from(RULES), st.sampled_from([TEXT, DOUBLE, Leaf(Kind.LONG)]))
def test_trying_is_mirrored(first, second, leaf):
    """Swapping two rules swaps the verdict."""
    there, back = compare_on_samples(rule(first[0], **first[1]), rule(second[0], **second[1]), leaf), None
    back = compare_on_samples(rule(second[0], **second[1]), rule(first[0], **first[1]), leaf)
    if Strictness.LOOSER in (there, back):
        assert {there, back} - {Strictness.LOOSER} <= {Strictness.OTHER, Strictness.STRICTER}
    else:
        assert back == {Strictness.STRICTER: Strictness.LOOSER, Strictness.LOOSER: Strictness.STRICTER}.get(
            there, there
        )


CROSSED = [
    (("mask", {"keep_first": 1, "keep_last": 1}), ("mask", {"keep_last": 4})),
    (("mask_ip", {"v4_prefix": 24, "v6_prefix": 48}), ("mask_ip", {"v4_prefix": 20, "v6_prefix": 63})),
    (("mask", {"keep_first": 2}), ("mask_email", {})),
    (("mask", {"keep_last": 4}), ("mask_ip", {"v4_prefix": 24})),
    (("mask", {"keep_last": 4}), ("geo", {"decimals": 2})),
    (("mask", {"keep_last": 4}), ("mask_url", {})),
    (("mask", {"keep_first": 4}), ("mask_card", {})),
    (("mask", {"keep_last": 2}), ("mask_phone", {"keep_last": 4})),
]


@pytest.mark.parametrize(("before", "after"), CROSSED)
def test_no_sample_makes_a_rule_the_stricter_one(before, after):
    """Values that the sample lacks would show what the other one leaves: a domain, a network, a place."""
    found = compare_on_samples(rule(before[0], **before[1]), rule(after[0], **after[1]), TEXT)
    assert found in (Strictness.OTHER, Strictness.LOOSER)
