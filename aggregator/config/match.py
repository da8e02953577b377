"""Finds the topic rule that applies to an edge topic.

The first rule applies that matches the whole name, does not exclude it, and is for this edge. No rule applies to a
topic that the hub excludes. No rule applies to heartbeats either: they are replicated without a rule.

Invariant: this module is the only place that decides it, and a name has exactly one answer. Nothing is refused: a topic
without a rule is not replicated.
"""

import functools

from aggregator.config.model import HubConfig, TopicRule
from aggregator.config.patterns import full_matches
from aggregator.coordinates import HEARTBEATS


def rule_for(config: HubConfig, edge: str, topic: str) -> TopicRule | None:
    """The first rule of `config` for this edge topic, or None.

    Args:
        config: The hub.
        edge: Edge name.
        topic: Topic name on the edge.
    """
    if topic == HEARTBEATS or (config.exclude is not None and _matches(config.exclude, topic)):
        return None
    return next((rule for rule in config.topics if _is_of(rule, edge) and matches_topic(rule, topic)), None)


def matches_topic(rule: TopicRule, topic: str) -> bool:
    """Whether a rule takes a topic of this name, on the edges that it speaks of, if no earlier one does."""
    return _matches(rule.match, topic) and not (rule.exclude is not None and _matches(rule.exclude, topic))


def excluded_by(config: HubConfig, edge: str, topic: str) -> str:
    """The `exclude` that keeps a topic from being replicated, as its place in the file, or an empty text."""
    if config.exclude is not None and _matches(config.exclude, topic):
        return "exclude"
    if rule_for(config, edge, topic) is not None:
        return ""
    found = (number for number, rule in enumerate(config.topics) if _is_of(rule, edge) and _matches(rule.match, topic))
    return next((f"topics[{number}].exclude" for number in found), "")


def _is_of(rule: TopicRule, edge: str) -> bool:
    return rule.edges is None or edge in rule.edges


@functools.lru_cache(maxsize=65_536)
def _matches(pattern: str, topic: str) -> bool:
    """Match one name and cache the answer: a driver asks for the same few topics once a second."""
    return full_matches(pattern, [topic])[0]
