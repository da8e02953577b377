"""Checks whether records at the edges can be delivered: topics that rules match, leaders, record sizes, and retention
against record age.

Invariant: pure. A run's own code decides which flow would be refused for the age of its records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from shlex import quote
from typing import NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.count_text import format_count
from aggregator.doctor.finding import Finding, failed, listed, ok, warning
from aggregator.errors import NEXT
from aggregator.kafka.client.record_size import MAX_RECORD_BYTES
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.flow.limits import TopicLimits

# Part of a cluster's answer where a right is missing. The check of rights reports it.
_DENIED = "authorization failed"


class CentralTopic(NamedTuple):
    """The central topic of an edge topic: whether it exists, and its present or future settings."""

    name: str
    settings: Mapping[str, str]
    exists: bool


def topics(edge: str, config: HubConfig, shown: DiscoveredTopics, denied: frozenset[str]) -> Iterator[Finding]:
    """Whether every rule finds something, and every partition has a leader.

    Args:
        edge: The name of the edge.
        config: The hub.
        shown: The edge's topics and records.
        denied: Topics that a rule names and that we may not see; told with the rights.
    """
    refused = {name for name, one in shown.unanswered.items() if _DENIED in one.why} | denied
    unanswered = {name: one.why for name, one in shown.unanswered.items() if name not in refused}
    for name, why in sorted(unanswered.items()):
        then = "start the broker that leads them; kafka-topics --describe --unavailable-partitions names it"
        yield failed(edge, "topics", f"{name}: {why}", then)
    seen = {*shown.topics, *shown.unanswered, *denied} - {HEARTBEATS}
    found = {id(rule_for(config, edge, name)) for name in seen}
    idle = [
        number
        for number, rule in enumerate(config.topics, start=1)
        if (rule.edges is None or edge in rule.edges) and id(rule) not in found
    ]
    for number in idle:
        what = (
            f"rule {number} (`match: {config.topics[number - 1].match}`) finds no topic of {edge} that the hub may see"
        )
        yield warning(edge, "topics", what, "correct `match`, create the topic, or give the hub Describe on it")
    if not idle and not unanswered:
        yield ok(edge, "topics", f"{format_count(len(seen), 'topic')} to be replicated: {listed(seen)}")


def sizes(
    edge: str, config: HubConfig, shown: DiscoveredTopics, central: Mapping[str, CentralTopic], servers: str
) -> Iterator[Finding]:
    """Whether central takes records as large as the edge does.

    Args:
        edge: The name of the edge.
        config: The hub.
        shown: The edge's topics and records.
        central: Central topics by name.
        servers: Central's, for commands.
    """
    well, compared = True, 0
    for name, topic in sorted(shown.topics.items()):
        takes = TopicLimits.of(topic.settings).record_bytes
        goal = target(config, edge, name)
        if name == HEARTBEATS or goal not in central:
            continue
        compared += 1
        limit = min(TopicLimits.of(central[goal].settings).record_bytes, MAX_RECORD_BYTES)
        if takes <= limit:
            continue
        well = False
        what = (
            f"{name} takes records of {takes:,} bytes, and {goal} at central only of {limit:,}:"
            " larger ones would become dead letters (too_large)"
        )
        then = _set(
            central[goal], f"max.message.bytes={min(takes, MAX_RECORD_BYTES)}", servers, _number(config, edge, name)
        )
        if central[goal].exists and _follows(config, edge, name):
            then = f"aggregator plan --apply; or: {then}"
        yield warning(edge, "size", what, then)
    if well and compared:
        yield ok(edge, "size", "central takes records as large as the edge does")


def retention(
    edge: str, config: HubConfig, holds: Iterable[Hold], central: Mapping[str, CentralTopic], servers: str
) -> Iterator[Finding]:
    """Whether central would delete what a new flow delivers.

    Args:
        edge: The name of the edge.
        config: The hub.
        holds: Flows that a run would refuse now.
        central: Central topics by name.
        servers: Central's, for commands.
    """
    old = defaultdict[str, list[Hold]](list)
    for hold in holds:
        if hold.source.edge == edge and hold.reason is HoldReason.RETENTION:
            old[hold.source.topic].append(hold)
    for name, found in sorted(old.items()):
        goal = target(config, edge, name)
        what = f"{name}: {found[0].detail.partition('; set ')[0]} (partitions that are held: {len(found)})"
        known = central.get(goal, CentralTopic(goal, {}, exists=False))
        then = _set(known, "retention.ms=-1", servers, _number(config, edge, name))
        yield failed(edge, "retention", what, then)
    if not old:
        yield ok(edge, "retention", "central keeps records longer than the oldest one that a new flow would read")


def takeover(edge: str, holds: Iterable[Hold]) -> Iterator[Finding]:
    """Whether flows may begin where MirrorMaker 2 stopped; nothing where none does.

    Args:
        edge: The name of the edge.
        holds: Flows that a run would refuse now.
    """
    waits = defaultdict[str, set[str]](set)
    for hold in holds:
        if hold.source.edge == edge and hold.reason is HoldReason.MIRRORMAKER:
            waits[hold.detail].add(hold.source.topic)
    for why, names in sorted(waits.items()):
        what, _, then = why.partition(NEXT)
        yield failed(edge, "takeover", f"{listed(names)}: {what}", then)


def _follows(config: HubConfig, edge: str, topic: str) -> bool:
    """Whether the size of records follows to central; it does not where a rule says its own."""
    rule = rule_for(config, edge, topic)
    return rule is not None and "max.message.bytes" not in rule.central_config


def _number(config: HubConfig, edge: str, topic: str) -> int:
    """The number, from 1, of the rule that takes a topic."""
    rule = rule_for(config, edge, topic)
    return 0 if rule is None else config.topics.index(rule) + 1


def _set(topic: CentralTopic, setting: str, servers: str, rule: int) -> str:
    """How to set a setting of a central topic: by a command if it exists, else by the rule that creates it."""
    if topic.exists:
        return (
            f"kafka-configs --bootstrap-server {servers} --alter --entity-type topics --entity-name {quote(topic.name)}"
            f" --add-config {quote(setting)}"
        )
    key, _, value = setting.partition("=")
    return f'set `central_config: {{{key}: "{value}"}}` in rule {rule} of `topics`'
