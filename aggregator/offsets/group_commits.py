"""Which translated positions are committed for a group at central, by KIP-545's rules.

Invariant: pure. Never for a group with a member there, and never backwards. A topic that several edge topics fill is
left out: a group has one position in a partition of it, and each of them another one.
"""

from collections.abc import Collection, Iterable, Mapping

from aggregator.coordinates import Partition
from aggregator.offsets.translation import Translation


def wanted_commits(found: Iterable[Translation], merged: Collection[Partition]) -> dict[str, dict[Partition, int]]:
    """What could be committed, by group.

    Args:
        found: Translations of all groups.
        merged: Partitions of topics that several edge topics fill.
    """
    wanted: dict[str, dict[Partition, int]] = {}
    for one in found:
        if one.group and one.topic is not None and one.partition is not None and one.central_offset is not None:
            at = (one.topic, one.partition)
            if at not in merged:
                wanted.setdefault(one.group, {})[at] = one.central_offset
    return wanted


def forward(wanted: Mapping[Partition, int], current: Mapping[Partition, int]) -> dict[Partition, int]:
    """What of it is no step back, nor none at all.

    Args:
        wanted: Positions of one group.
        current: What it has committed at central.
    """
    return {at: offset for at, offset in wanted.items() if offset > current.get(at, -1)}
