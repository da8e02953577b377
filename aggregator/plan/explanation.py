"""Explains why a topic is replicated from an edge or not: the matching rule, its destination, and what is stripped.

Invariant: the answers come from the same functions that a run uses. They decide which topics are internal, which rule
matches first, where a topic goes, and what the compiler makes of its newest schema. This module only reads.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from aggregator.config.match import excluded_by, rule_for
from aggregator.config.model import HubConfig, TopicRule
from aggregator.coordinates import HEARTBEATS
from aggregator.errors import AggregatorError, Reason, Unreachable
from aggregator.kafka.cluster import topics
from aggregator.plan.schemas import FieldRoute, NewestSchema, UnreadableSchema, fields_of, newest_schemas, paths_of
from aggregator.privacy.policy.file import Policy
from aggregator.privacy.policy.precedence import key_scope
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.edge_topic import EdgeTopic, is_internal
from aggregator.state.names import central_topic

_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explains for one edge whether a topic is replicated, and why.

    Attributes:
        edge: The edge's name.
        exists: Whether the edge has the topic; None when it does not answer.
        replicated: Whether its records reach central.
        why: The reason in a sentence.
        rule: Number of the rule, from 1, and its pattern; empty for none.
        central: The central topic that it goes to, or would go to.
        lake: The name of its table.
        policy: Policy, version and file.
        key: Operator of the record key.
        key_because: The rule that says so.
        headers: Names of the headers that pass.
        fields: Leaves of the newest schema with what becomes of them.
        trouble: Why the fields are not known, if so.
        schemas: Versions of the schemas of these fields, each with its id.
        returns: Treatment of a record that has passed central before.
    """

    edge: str
    exists: bool | None
    replicated: bool
    why: str
    rule: str = ""
    central: str = ""
    lake: str = ""
    policy: str = ""
    key: str = ""
    key_because: str = ""
    headers: tuple[str, ...] = ()
    fields: tuple[FieldRoute, ...] = ()
    trouble: str = ""
    returns: str = ""
    schemas: tuple[str, ...] = ()

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for an explanation."""
        return asdict(self)


class RuleMatch(NamedTuple):
    """Whether a topic is replicated, as far as the configuration decides it."""

    replicated: bool
    why: str
    rule: TopicRule | None = None


def rule_match(config: HubConfig, edge: str, topic: str) -> RuleMatch:
    """The configuration's decision about a topic on one edge, without a question to any cluster."""
    if topic == HEARTBEATS:
        return RuleMatch(True, "heartbeats are checked and replicated without a rule")
    if is_internal(topic):
        return RuleMatch(False, "internal topics are never replicated, as in MirrorMaker 2")
    rule = rule_for(config, edge, topic)
    if rule is None:
        return RuleMatch(False, _unmatched(config, edge, topic))
    return RuleMatch(True, "the rule is the first whose `match` is its whole name", rule)


def explanation(config: HubConfig, policies: Mapping[Path, Policy], edge: str, topic: str, today: date) -> Explanation:
    """Explain a topic on one edge; an edge or a registry that does not answer is part of the answer.

    Raises:
        ConfigError: the policy contradicts itself for this topic.
    """
    try:
        exists: bool | None = topic in topics.topic_names(config.edges[edge], timeout_s=_TIMEOUT_S)
    except Unreachable:
        exists = None
    matched = rule_match(config, edge, topic)
    if matched.rule is not None:
        return _by_rule(config, policies, edge, topic, matched.rule, why=matched.why, exists=exists, today=today)
    central = target(config, edge, topic) if matched.replicated else ""
    return Explanation(edge, exists, matched.replicated and exists is not False, matched.why, central=central)


def _unmatched(config: HubConfig, edge: str, topic: str) -> str:
    if place := excluded_by(config, edge, topic):
        return f"`{place}` names it"
    elsewhere = [other for other in config.edges if other != edge and rule_for(config, other, topic) is not None]
    if elsewhere:
        return f"no rule speaks of it on this edge; one does on {', '.join(elsewhere)} (`edges:` of the rule)"
    return "no rule's `match` is its whole name"


def _by_rule(
    config: HubConfig,
    policies: Mapping[Path, Policy],
    edge: str,
    topic: str,
    rule: TopicRule,
    *,
    why: str,
    exists: bool | None,
    today: date,
) -> Explanation:
    policy = policies[rule.policy]
    view = policy.view(topic)
    key = key_scope(policy, topic).decide_whole(today)
    fields, schemas, trouble = _fields(config, {rule.policy: policy}, edge, topic, today)
    words = {True: "the edge has it", False: "the edge does not have it yet", None: "the edge does not answer"}
    return Explanation(
        edge,
        exists,
        replicated=exists is True,
        why=f"{why}; {words[exists]}",
        rule=f"{config.topics.index(rule) + 1}: {rule.match}",
        central=target(config, edge, topic),
        lake="" if rule.lake is None or config.lake is None else central_topic(rule.lake, edge, topic),
        policy=f"{policy.policy} version {policy.version}, {rule.policy}",
        key=key.rule.operator,
        key_because=key.because,
        headers=view.headers,
        fields=fields,
        trouble=trouble,
        returns=_returns(config),
        schemas=schemas,
    )


def _returns(config: HubConfig) -> str:
    """The treatment of records that hubs in a circle bring back."""
    dead = f"a dead letter ({Reason.UNPROVEN_CYCLE})"
    if config.chain_key is None:
        return f"a record that has passed central before is {dead}: without `chain_key` no hub's word is proven"
    return f"a record that has passed central before is suppressed by the seal of key {config.chain_key}; else {dead}"


def _fields(
    config: HubConfig, policies: Mapping[Path, Policy], edge: str, topic: str, today: date
) -> tuple[tuple[FieldRoute, ...], tuple[str, ...], str]:
    try:
        found, trouble = newest_schemas(config, policies, {edge: {topic: EdgeTopic(topic, "", (), (), (), ())}})
    except AggregatorError as error:
        return (), (), error.message
    fields = (*fields_of(found, today), *paths_of(config, policies, edge, [topic], today))
    unread = "; ".join(f"{one.writer}: {one.error.message}" for one in found if isinstance(one, UnreadableSchema))
    missing = unread or ("" if fields else f"the edge's registry has no schema {topic}-value")
    newest = (one.version for one in found if isinstance(one, NewestSchema))
    schemas = tuple(f"{one.subject} version {one.version}, id {one.schema_id}" for one in newest)
    return fields, schemas, trouble.get(edge, missing)
