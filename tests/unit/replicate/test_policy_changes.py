"""What a hub begins with is a decision, each time that it is another one: its policies, and rules that skip gaps."""

from pathlib import Path
from types import MappingProxyType

import pytest

from aggregator.config.model import TopicRule
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.epoch.policy_changes import policy_decisions
from aggregator.state.decisions import DecisionKind, NewDecision, links

POLICY = "policy: retail\nversion: {}\ndefault: drop\ntopics: {{}}\n"
POLICIES = MappingProxyType({Path("/a/retail.yaml"): parse_policy(POLICY.format(1))})


def rule(match, on_gap="hold", edges=None):
    return TopicRule(match=match, policy="retail.yaml", on_gap=on_gap, edges=edges)


def lives(*starts):
    """What each start of a hub puts on record, one after the other."""
    known, told = [], []
    for now_ms, (rules, policies) in enumerate(starts):
        fresh = policy_decisions(rules, policies, known, by="hub", now_ms=now_ms)
        known += links(fresh, known[-1] if known else None, "")
        told.append([(one.kind.value, one.about) for one in fresh])
    return told


def test_a_rule_that_skips_gaps_is_a_decision_when_it_begins_and_when_it_ends():
    """Once each; also where the rule is gone, or speaks of other edges; a rule that holds is none."""
    told = lives(
        ([rule("orders"), rule("a|b")], {}),
        ([rule("orders", "skip"), rule("a|b")], {}),
        ([rule("orders", "skip"), rule("a|b")], {}),
        ([rule("orders", "skip", ("us", "eu"))], {}),
        ([], {}),
        ([rule("orders", "skip")], {}),
    )
    assert told == [
        [],
        [("gap", "topics orders at every edge: on_gap skip")],
        [],
        [("gap", "topics orders at eu,us: on_gap skip"), ("gap", "topics orders at every edge: on_gap hold")],
        [("gap", "topics orders at eu,us: on_gap hold")],
        [("gap", "topics orders at every edge: on_gap skip")],
    ]


def test_a_policy_is_a_decision_when_it_is_another_one():
    """By its file's name, with its version and hash."""
    other = {Path("/a/retail.yaml"): parse_policy(POLICY.format(2))}
    first, again, then, back = lives(([], POLICIES), ([], POLICIES), ([], other), ([], POLICIES))
    assert (len(first), again, len(then), first) == (1, [], 1, back)
    assert first[0][1].startswith("retail.yaml: retail version 1, ")


def test_a_version_that_loosens_is_on_record_with_its_reason():
    """And with who answers for it."""
    text = POLICY.format(2) + "loosens: {version: 1, reason: 'support asked, OPS-7', owner: dpo}\n"
    (found,) = policy_decisions([], {Path("/a/retail.yaml"): parse_policy(text)}, [], by="hub", now_ms=1)
    assert found.reason == "loosens version 1: support asked, OPS-7 (owner: dpo)"


@pytest.mark.parametrize(
    "about",
    [
        "topics x",
        "gap/truncated/eu/orders/0/1/5/9",
        ": on_gap ",
        "topics x at every edge: on_gap maybe",
        "topics x: on_gap skip",
    ],
)
def test_other_decisions_about_gaps_are_no_word_of_a_rule(about):
    """An accepted gap, and whatever somebody writes there."""
    known = links([NewDecision(DecisionKind.GAP, about, "me", 1)], None, "")
    assert policy_decisions([rule("x")], {}, known, by="hub", now_ms=2) == []
