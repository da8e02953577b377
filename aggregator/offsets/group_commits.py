"""Selects the translated positions that are committed for a group at central, by KIP-545's rules.

Invariant: pure. A group with a member at central gets no commit, and no commit moves a group backwards. A central topic
that several edge topics fill is left out: a group has one position in each of its partitions, and each edge topic would
give another position.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from aggregator.config.model import HubConfig
from aggregator.coordinates import Partition
from aggregator.offsets.questions import TranslationInputs, merged_partitions
from aggregator.offsets.translation import Translation


def committable(
    config: HubConfig, found: Sequence[Translation], facts: TranslationInputs
) -> tuple[dict[str, dict[Partition, int]], set[Partition]]:
    """The positions to commit, by group, and the partitions of topics that several edge topics fill.

    Args:
        config: The hub.
        found: Translations of all groups.
        facts: Facts that the translations rest on.
    """
    partitions = {(one.topic, one.partition or 0) for one in found if one.topic is not None}
    merged = merged_partitions(config, partitions, facts)
    return wanted_commits(found, merged), merged


def wanted_commits(found: Iterable[Translation], merged: Collection[Partition]) -> dict[str, dict[Partition, int]]:
    """The offsets that could be committed at central, by group.

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
    """The positions that move a group forward, or that are its first.

    Args:
        wanted: Positions of one group.
        current: What it has committed at central.
    """
    return {at: offset for at, offset in wanted.items() if offset > current.get(at, -1)}
