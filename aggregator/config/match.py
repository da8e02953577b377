"""Which topic rule speaks of an edge topic: the first whose pattern matches the whole name and whose edges hold it.

Invariant: one answer for one name, here and nowhere else. Refuses nothing: a topic without a rule is not replicated.
"""

import functools

from aggregator.config.model import HubConfig, TopicRule
from aggregator.config.patterns import full_matches


def rule_for(config: HubConfig, edge: str, topic: str) -> TopicRule | None:
    """The first rule of `config` for this edge topic, or None.

    Args:
        config: The hub.
        edge: Edge name.
        topic: Topic name on the edge.
    """
    for rule in config.topics:
        if (rule.edges is None or edge in rule.edges) and _matches(rule.match, topic):
            return rule
    return None


@functools.lru_cache(maxsize=65_536)
def _matches(pattern: str, topic: str) -> bool:
    """One name at a time, kept: a driver asks for the same few topics once a second."""
    return full_matches(pattern, [topic])[0]
