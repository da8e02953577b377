"""This module records a decision when a hub starts with changed policies, or with changed rules about gaps.

Invariant: a rule with `on_gap: skip` accepts gaps that nobody has seen yet. A hub therefore records a decision when it
starts with such a rule, and again when it starts without the rule. If the hub may not write to the decisions topic, it
logs a warning and runs on. Every derived schema and every report names its policy anyway, and every gap names the
offsets that were passed over.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

from aggregator.config.model import HubConfig, TopicRule
from aggregator.errors import FatalError, Unreachable
from aggregator.machine_clock import utc_now_ms
from aggregator.privacy.policy.file import Policy
from aggregator.state.decisions import ChainLink, DecisionKind, NewDecision, append_decisions, decode, read_decisions
from aggregator.state.gap_rules import SkipRule, skip_rule
from aggregator.state.names import HubNames

log = logging.getLogger(__name__)


def record_policies(config: HubConfig, policies: Mapping[Path, Policy], *, by: str) -> None:
    """Append a decision for each policy, and for each rule's terms about gaps, if they differ from before.

    Args:
        config: The hub.
        policies: Those of its rules, by path.
        by: The process that begins with them.
    """
    try:
        found = map(decode, read_decisions(config.central, HubNames(config.hub)))
        now_ms = utc_now_ms()
        fresh = policy_decisions(config.topics, policies, [link for link in found if link], by=by, now_ms=now_ms)
        if fresh:
            append_decisions(config, fresh)
    except (FatalError, Unreachable) as error:
        log.warning("by which policies and rules this hub goes is not on record: %s", error.message)


def policy_decisions(
    rules: Iterable[TopicRule], policies: Mapping[Path, Policy], known: Iterable[ChainLink], *, by: str, now_ms: int
) -> list[NewDecision]:
    """The decisions that are not recorded yet.

    Args:
        rules: Rules of the hub.
        policies: Theirs, by path.
        known: The decisions so far, in their order.
        by: The process that begins.
        now_ms: Time of the decisions.
    """
    strips, before = dict[str, str](), set[SkipRule]()
    for link in known:
        if link.kind is DecisionKind.POLICY:
            strips[link.about.partition(": ")[0]] = link.about
        elif (word := skip_rule(link)) is not None:
            before = before | {word} if word.skips else before - {word._replace(skips=True)}
    now = {f"{path.name}: {one.policy} version {one.version}, {one.hash}": one for path, one in policies.items()}
    fresh = [
        NewDecision(DecisionKind.POLICY, about, by, now_ms, _why(policy))
        for about, policy in sorted(now.items(), key=lambda item: item[0])
        if about not in strips.values()
    ]
    skipping = {SkipRule.of(rule.match, rule.edges, skips=True) for rule in rules if rule.on_gap == "skip"}
    turned = [
        *sorted(skipping - before, key=str),
        *(one._replace(skips=False) for one in sorted(before - skipping, key=str)),
    ]
    return fresh + [NewDecision(DecisionKind.GAP, word.about, by, now_ms) for word in turned]


def _why(policy: Policy) -> str:
    """Why a version may loosen the one before, and who answers for it; empty where it says nothing of that."""
    said = policy.loosens
    return f"loosens version {said.version}: {said.reason} (owner: {said.owner})" if said else ""
