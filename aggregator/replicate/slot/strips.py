"""This module builds the strip of each edge topic, for slots and for commands that check a configuration before a run.

Invariant: this is the one place that decides which policy, registries and keys apply to a topic's records.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.config.secrets import KeyRing, SecretRef
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.edges.heartbeats import HeartbeatStrip
from aggregator.errors import HoldError
from aggregator.machine_clock import utc_today
from aggregator.privacy.batch.strip import Strip
from aggregator.privacy.kernel.factory import topic_strip
from aggregator.privacy.policy.file import Policy
from aggregator.replicate.discovery.central_topics import target
from aggregator.schema.registries import open_registry
from aggregator.schema.registry import Registry


def strips(
    config: HubConfig,
    policies: Mapping[Path, Policy],
    key_rings: Mapping[str, KeyRing],
    *,
    central: Registry | None = None,
    patience_s: float | None = None,
) -> Callable[[EdgePartition], Strip]:
    """The strip of each edge topic under its rule's policy.

    Args:
        config: The hub.
        policies: Of its rules, by path.
        key_rings: Its key rings.
        central: Gets the derived schemas instead of the registry of the configuration.
        patience_s: How long a batch waits for a schema id that its edge's registry does not know; None: as configured.

    Returns:
        A function of a flow; it raises HoldError where no rule wants the topic, or a registry is not configured.
    """
    from aggregator.privacy.kernel.memory import MemoryBudget  # noqa: PLC0415 - loads numba, which a driver does without

    budget, refreshed = MemoryBudget(), set[int]()
    waits_s = config.replication.schema_patience.total_seconds() if patience_s is None else patience_s

    def edge_registry(reference: str, client: Mapping[str, str | SecretRef]) -> Registry:
        """Open an edge's registry, and refresh its cache once an epoch, as an id may have another schema then."""
        registry = _registry(reference, frozenset(client.items()))
        if id(registry) not in refreshed:
            refreshed.add(id(registry))
            registry.refresh()
        return registry

    def strip_for(source: EdgePartition) -> Strip:
        if source.topic == HEARTBEATS:
            return HeartbeatStrip()
        edge, rule = config.edges[source.edge], rule_for(config, source.edge, source.topic)
        if rule is None or edge.schemas is None or config.schemas is None:
            raise HoldError(f"{source}: no rule or no registry", hint="run `aggregator config lint`")
        return topic_strip(
            policy=policies[rule.policy],
            edge_topic=source.topic,
            central_topic=target(config, source.edge, source.topic),
            edge_registry=edge_registry(edge.schemas, edge.schemas_client),
            central_registry=central or _registry(config.schemas, frozenset(config.schemas_client.items())),
            key_rings=key_rings,
            today=utc_today,
            now_s=time.monotonic,
            edge=source.edge,
            budget=budget,
            patience_s=waits_s,
        )

    return strip_for


@cache
def _registry(reference: str, client: frozenset[tuple[str, str | SecretRef]]) -> Registry:
    """Kept for the life of the worker: what a registry said must outlive an epoch in which it is down."""
    return open_registry(reference, dict(client))
