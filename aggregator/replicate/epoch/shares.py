"""This module divides an edge's `rate_limit` among the slots that read the edge.

Invariant: pure. The shares of one edge add up to its limit, so the limit holds if every slot keeps to its share. A slot
that reads only heartbeats has no share and is not limited: heartbeats are few bytes and must arrive in time.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition


def limits_of(config: HubConfig) -> dict[str, int]:
    """The bytes a second of the edges that have a limit."""
    return {name: edge.rate_limit for name, edge in config.edges.items() if edge.rate_limit is not None}


def shares(limits: Mapping[str, int], by_slot: Mapping[int, Collection[EdgePartition]]) -> dict[int, dict[str, float]]:
    """The bytes a second that each slot may receive of each limited edge, in proportion to its partitions.

    Args:
        limits: Bytes a second, by edge that has a limit.
        by_slot: Partitions that each slot reads.
    """
    if not limits:
        return {}
    counts = {slot: _counted(sources, limits) for slot, sources in by_slot.items()}
    whole = sum(counts.values(), Counter[str]())
    return {
        slot: {edge: limits[edge] * number / whole[edge] for edge, number in own.items()}
        for slot, own in counts.items()
    }


def _counted(sources: Iterable[EdgePartition], limits: Mapping[str, int]) -> Counter[str]:
    return Counter(at.edge for at in sources if at.edge in limits and at.topic != HEARTBEATS)
