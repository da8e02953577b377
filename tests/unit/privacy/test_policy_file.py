"""The policy file."""

import json
import pickle
import re
import time
from datetime import date
from pathlib import Path

import pytest

from aggregator.errors import ConfigError
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.kernel.strip import KernelStrip
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.nullify import Nullify
from aggregator.privacy.operators.pseudonymize import Pseudonymize
from aggregator.privacy.operators.redact import Redact
from aggregator.privacy.policy.file import load_policy, parse_policy
from aggregator.privacy.policy.precedence import key_scope
from aggregator.schema.memory import MemoryRegistry
from tests.growth import cpu_s
from tests.unit.privacy.kernel.differential import KEYS

EXAMPLE = """\
policy: retail
version: 3
default: drop
tags:
  PII: drop
  PII.ID: {pseudonymize: {key: customer, domain: customer}}
topics:
  "orders|bookings":
    key: {pseudonymize: {key: customer, domain: customer}}
    headers: [traceparent]
    fields:
      order_id: keep
      customer.email: {pseudonymize: {key: customer, domain: email, normalize: email}}
      items[].**: keep
"""


def test_the_documented_example():
    """Every key of the reference's example is read."""
    view = parse_policy(EXAMPLE).view("bookings")
    assert view.keys == (Pseudonymize(key="customer", domain="customer"),)
    assert view.headers == ("traceparent",)
    assert dict(view.fields)["items[].**"] == Keep()
    assert view.defaults == (Drop(),)


def test_patterns_match_the_whole_topic():
    """`orders` is not `orders-old`; a topic that nothing matches has tags and default only."""
    view = parse_policy(EXAMPLE).view("orders-old")
    assert (view.keys, view.headers, view.fields) == ((Drop(),), (), ())


def test_order_and_layout_do_not_change_the_hash():
    """The hash is of the meaning; a change of it changes the hash."""
    turned = """\
topics:
  "orders|bookings":
    fields: {"items[].**": keep, customer.email: {pseudonymize: {normalize: email, domain: email, key: customer}},
             order_id: {keep: {}}}
    headers: [traceparent, traceparent]
    key: {pseudonymize: {domain: customer, key: customer, encode: hex}}
tags: {PII.ID: {pseudonymize: {key: customer, domain: customer}}, PII: {drop: {}}}
version: 3
policy: retail
"""
    assert parse_policy(turned).hash == parse_policy(EXAMPLE).hash
    assert parse_policy(turned) == parse_policy(EXAMPLE)
    assert parse_policy(EXAMPLE.replace("order_id: keep", "order_id: redact")).hash != parse_policy(EXAMPLE).hash


def test_policies_travel():
    """Spark pickles them; the hash survives, and keys are names only."""
    policy = parse_policy(EXAMPLE)
    again = pickle.loads(pickle.dumps(policy))
    assert (again, again.hash, again.keys()) == (policy, policy.hash, {"customer"})


def test_operators_with_and_without_parameters():
    """A text is an operator without parameters."""
    policy = parse_policy(
        "policy: p\nversion: 1\ntags: {A: nullify, B: redact, C: {redact: {value: gone}}, D: {nullify: }}\n"
    )
    assert policy.tags == {"A": Nullify(), "B": Redact(), "C": Redact(value="gone"), "D": Nullify()}


def test_expiry_is_a_date():
    """`keep` of tagged data names a day."""
    policy = parse_policy("policy: p\nversion: 1\ntags: {A: {keep: {reason: r, owner: o, expires: 2027-01-31}}}\n")
    assert policy.tags["A"] == Keep(reason="r", owner="o", expires=date(2027, 1, 31))


def test_all_faults_at_once_with_their_lines(tmp_path):
    """One run names everything that is wrong, by file and line, and quotes no value."""
    path = tmp_path / "bad.yaml"
    path.write_text("""\
policy: sesame open
version: zero
default: keep
bogus: sesame
tags:
  PII: date_shift
  P: keep
  Q: {pseudonymize: {key: customer, dom: sesame}}
topics:
  "orders|(":
    key: nullify
    extra: sesame
    format: xml
    fields:
      order id: keep
      x: {keep: {reason: sesame}}
      y: {foo: {}, bar: {}}
      z: sesame
      w: {keep: {operator: drop}}
""")
    with pytest.raises(ConfigError) as caught:
        load_policy(path)
    message = str(caught.value)
    lines = {int(line.removeprefix(f"{path}:").partition(":")[0]) for line in message.splitlines() if "yaml:" in line}
    assert lines == {1, 2, 3, 4, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18, 19}
    assert "sesame" not in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("policy: p\nversion: 1\ntopic: {}\n", ":3: topic: is not known; did you mean `topics`?"),
        (
            "policy: p\nversion: 1\ntopics:\n  a: {feilds: {}}\n",
            ":4: topics.a.feilds: is not known; did you mean `fields`?",
        ),
        ("policy: p\nversion: 1\nqqqq: 1\n", ":3: qqqq: is not known; known here: policy, version"),
    ],
)
def test_a_mistyped_key_is_told_with_the_one_that_was_meant(text, told):
    """As in hub.yaml."""
    with pytest.raises(ConfigError, match=re.escape(told)):
        parse_policy(text)


@pytest.mark.parametrize("text", ["", "[]", "x", "policy: [", "policy: p\npolicy: q\nversion: 1", "a: !!python/none x"])
def test_what_is_no_policy_is_refused(text):
    """Whatever the file holds, the answer is a ConfigError with a line."""
    with pytest.raises(ConfigError, match=r"policy:\d+"):
        parse_policy(text)


@pytest.mark.parametrize("name", ["hub.origin", "hub.origin.mac", "hub.chain", "hub.backfill"])
def test_the_hubs_own_headers_never_pass(name):
    """A producer at an edge would say in the hub's place where a record came from, or that a backfill brought it."""
    with pytest.raises(ConfigError, match=rf"policy:3: .*{name} is the hub's own header"):
        parse_policy(f"policy: p\nversion: 1\ntopics: {{t: {{headers: [a, {name}]}}}}\n")


@pytest.mark.parametrize(
    ("default", "fine"),
    [("drop", True), ("nullify", True), ("redact", True), ("keep", False),
     ("{pseudonymize: {key: customer, domain: d}}", False)],
)  # fmt: skip
def test_defaults_close(default, fine):
    """What nobody declared is never kept, and never gets a token, by a policy's default."""
    text = f"policy: p\nversion: 1\ndefault: {default}\n"
    if fine:
        parse_policy(text)
    else:
        with pytest.raises(ConfigError):
            parse_policy(text)


@pytest.mark.parametrize("operator", ["nullify", "redact", "{redact: {value: x}}"])
def test_keys_take_operators_that_tell_keys_apart(operator):
    """A constant key would merge all records of a compacted topic into one."""
    with pytest.raises(ConfigError, match="merge all keys"):
        parse_policy(f"policy: p\nversion: 1\ntopics: {{t: {{key: {operator}}}}}\n")


def test_several_patterns_for_one_topic_restrict_each_other():
    """Headers pass if all let them, the key takes the most restrictive operator, two key formats are refused."""
    text = """\
policy: p
version: 1
topics:
  "a|b": {key: keep, headers: [x, y], fields: {f: keep}, default: keep}
  "b|c": {key: {pseudonymize: {key: k, domain: d}}, headers: [y, z], fields: {f: drop}}
"""
    policy = parse_policy(text)
    view = policy.view("b")
    assert (view.headers, [rule.operator for rule in view.keys]) == (("y",), ["keep", "pseudonymize"])
    assert key_scope(policy, "b").decide_whole(date(2026, 11, 1)).rule == view.keys[1]
    assert view.defaults == (Keep(), Drop())
    assert sorted(rule.operator for _, rule in view.fields) == ["drop", "keep"]
    two = text.replace("key: keep,", "key: keep, format: long,").replace("headers: [y, z]", "format: json")
    assert parse_policy(two).view("a").format == "long"
    with pytest.raises(ConfigError, match="two key formats for topic b"):
        parse_policy(two).view("b")


def test_missing_file_is_named(tmp_path):
    """The file's name is in the error."""
    with pytest.raises(ConfigError, match=r"none\.yaml: No such file"):
        load_policy(tmp_path / "none.yaml")


def test_the_examples_of_the_demo_policy_are_true():
    """The lines behind `#:` are a policy too, and do what they say."""
    text = (Path(__file__).parents[3] / "configs/policies/demo.yaml").read_text(encoding="utf-8")
    assert "loyalty" not in parse_policy(text).topics
    strip = KernelStrip(
        policy=parse_policy(text.replace("  #: ", "  ")), edge_topic="loyalty", central_topic="eu.loyalty",
        edge_registry=MemoryRegistry(), central_registry=MemoryRegistry(), key_rings=KEYS,
        today=utc_today, now_s=time.monotonic,
    )  # fmt: skip
    member = {"member": 42, "residency": "DE", "joined": "2020-05-01", "visits": [{"shop": "s", "card": "1"}]}
    stays = [{**member, "residency": "CH"}, {"member": 42}]
    values = [json.dumps(value).encode() for value in ({**member, "points": {"s": 5}, "name": "Jane"}, *stays)]
    out = strip.strip(Batch([b"k"] * 3, values, [None] * 3))
    assert out.suppressed == {1, 2}
    left = json.loads(out.values[0])
    assert left.pop("visits") == [{"shop": "s"}]
    assert left.pop("points").popitem()[1] == 5
    assert (left.keys(), left["joined"]) == ({"member", "joined"}, "2020-05-19")


@pytest.mark.parametrize(
    "text", ["[" * 400 + "]" * 400, "{a: " * 500 + "1" + "}" * 500, "{a: " * 101 + "1" + "}" * 101]
)
def test_a_file_that_nests_without_end_has_a_fault(text):
    """It is told like every other fault, and ends nobody who reads a policy."""
    with pytest.raises(ConfigError, match="nests too deep"):
        parse_policy(f"policy: p\nversion: 1\ntags: {text}\n")


@pytest.mark.slow
@pytest.mark.parametrize("opening", ["[", "{", "{a: ", "[a,", "- ", "? "])
def test_the_time_for_a_file_that_nests_grows_no_faster_than_it(opening):
    """A parser that looks at every open bracket for each token takes the square: 3,000 brackets took 16 seconds."""

    def refuse(count: int) -> None:
        with pytest.raises(ConfigError, match="nests too deep"):
            parse_policy(opening * count)

    assert cpu_s(lambda: refuse(6000)) < 20 * cpu_s(lambda: refuse(600)) + 0.1
