"""Chooses the implementation of stripping; no other module does."""

from collections.abc import Callable, Mapping
from datetime import date
from typing import TYPE_CHECKING

from aggregator.config.secrets import KeyRing
from aggregator.privacy.batch.strip import Strip
from aggregator.privacy.policy.file import Policy
from aggregator.schema.registry import Registry

if TYPE_CHECKING:
    from aggregator.privacy.kernel.memory import MemoryBudget


def topic_strip(
    *,
    policy: Policy,
    edge_topic: str,
    central_topic: str,
    edge_registry: Registry,
    central_registry: Registry,
    key_rings: Mapping[str, KeyRing],
    today: Callable[[], date],
    now_s: Callable[[], float],
    edge: str | None = None,
    budget: "MemoryBudget | None" = None,
    patience_s: float = 0.0,
) -> Strip:
    """Make the strip of one edge topic.

    Args:
        policy: The topic's policy.
        edge_topic: The topic that records come from.
        central_topic: The central topic; derived schemas get the subjects `<central topic>-value` and `-key`.
        edge_registry: Knows the writers' schemas.
        central_registry: Gets the derived ones.
        key_rings: The hub's key rings; resolved here, in the process that strips.
        today: The day in UTC; decides which `keep` has expired.
        now_s: Seconds on a clock that only goes forward; by it waits for schema ids end.
        edge: The edge of the records; without it, conditions on the edge cannot be decided.
        budget: What operators may remember, where several topics share it.
        patience_s: How long a batch waits for a schema id that the edge's registry does not know; 0: not at all.

    Raises:
        ConfigError: the policy contradicts itself for this topic, or names a key that is not there.
    """
    from aggregator.privacy.kernel.strip import KernelStrip  # noqa: PLC0415 - loads numba, which takes a second

    return KernelStrip(
        policy=policy,
        edge_topic=edge_topic,
        central_topic=central_topic,
        edge_registry=edge_registry,
        central_registry=central_registry,
        key_rings=key_rings,
        today=today,
        now_s=now_s,
        edge=edge,
        budget=budget,
        patience_s=patience_s,
    )
