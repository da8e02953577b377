"""Finds which central topics feed which lake table, from the ledger's flows and the topic rules.

Invariant: a pure function of configuration and flows. Heartbeats are not data and feed no table.
"""

from collections.abc import Iterable

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.state.names import central_topic


def lake_sources(config: HubConfig, flows: Iterable[EdgePartition]) -> dict[str, frozenset[str]]:
    """The central topics by table name, for every flow whose rule has `lake:`.

    Args:
        config: The hub.
        flows: Edge partitions that the hub replicates: the keys of its ledger.
    """
    tables: dict[str, set[str]] = {}
    for edge, topic in sorted({(flow.edge, flow.topic) for flow in flows}):
        rule = rule_for(config, edge, topic)
        if rule is not None and rule.lake is not None:
            table = central_topic(rule.lake, edge, topic)
            tables.setdefault(table, set()).add(central_topic(rule.central, edge, topic))
    return {table: frozenset(topics) for table, topics in tables.items()}
