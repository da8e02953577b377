"""Finds topics of an edge that the configuration does not decide about: no rule takes them, and no `exclude` names
them.

Invariant: pure. Internal topics are never replicated and are not listed.
"""

from collections.abc import Iterable

from aggregator.config.match import excluded_by, rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.replicate.discovery.edge_topic import is_internal


def without_rule(config: HubConfig, edge: str, topics: Iterable[str]) -> tuple[str, ...]:
    """The names of an edge's topics that no rule and no `exclude` speaks of.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        topics: All topics that the edge has.
    """
    return tuple(
        name
        for name in sorted(topics)
        if name != HEARTBEATS
        and not is_internal(name)
        and rule_for(config, edge, name) is None
        and not excluded_by(config, edge, name)
    )
