"""Finds drift for the status: topic settings in which central differs from its edges now.

Invariant: this module only reads, and asks all edges at the same time. A cluster that does not tell its settings is
left out, edge or central.
"""

from collections.abc import Collection

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.kafka.cluster import topic_settings
from aggregator.replicate.discovery.central_topics import target
from aggregator.replicate.discovery.topic_settings import Drift, drifts, following
from aggregator.threads import map_concurrently


def drift(config: HubConfig, flows: Collection[tuple[str, str]]) -> tuple[Drift, ...]:
    """Compare the settings of topics that have flows.

    Args:
        config: The hub.
        flows: Edge and topic of those whose edge answers.
    """
    wanted = {
        edge: sorted({name for one, name in flows if one == edge and _follows(config, edge, name)}) for edge, _ in flows
    }

    def one(edge: str) -> dict[str, dict[str, str]]:
        found, _ = topic_settings.settings_each(config.edges[edge], wanted[edge])
        return {name: following(*settings) for name, settings in found.items()}

    shown = map_concurrently(one, wanted)
    goals = {target(config, edge, name) for edge, names in wanted.items() for name in names}
    central, _ = topic_settings.settings_each(config.central, sorted(goals))
    values = {name: settings.values for name, settings in central.items()}
    return tuple(drifts(config, shown, values, {name: settings.own for name, settings in central.items()}))


def _follows(config: HubConfig, edge: str, topic: str) -> bool:
    return edge in config.edges and rule_for(config, edge, topic) is not None
