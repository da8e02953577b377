"""Reads the positions that were published at central, from MirrorMaker 2's records there.

Invariant: it only reads. Other records are skipped, because every client with write access can write any bytes.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.coordinates import OffsetRange
from aggregator.kafka.cluster.topics import topic_names
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.open_range import read_range
from aggregator.offsets.mirror_records import Checkpoint, checkpoint
from aggregator.state.internal_topics import offset_topics
from aggregator.state.names import checkpoints

# The last written value, by topic and key.
PublishedRecords = dict[tuple[str, bytes], bytes]


def published_positions(config: HubConfig) -> PublishedRecords:
    """The newest record of each key in the topics that the configuration asks for; none of topics that are not there.

    Raises:
        Unreachable: central does not answer.
    """
    there = topic_names(config.central)
    found: PublishedRecords = {}
    for spec in offset_topics(config):
        if spec.name not in there:
            continue
        at = (spec.name, 0)
        log: OffsetRange = ends.readable_ranges(config.central, [at])[at]
        records = read_range(config.central, at, log, committed=True)
        found |= {(spec.name, one.key): one.value for one in records if one.key is not None and one.value is not None}
    return found


class GroupPosition(NamedTuple):
    """Where a group of an edge would go on at central, as a hub told it last.

    Attributes:
        edge: Its edge.
        group: Its name.
        topic: The central topic.
        partition: The partition of the central topic.
        edge_offset: Offset that the group had committed at the edge.
        central_offset: The same position at central.
        end_offset: Central's last stable offset now; None: the topic is gone.
    """

    edge: str
    group: str
    topic: str
    partition: int
    edge_offset: int
    central_offset: int
    end_offset: int | None

    @property
    def ahead_records(self) -> int | None:
        """An upper bound of the records that central has for the group."""
        return None if self.end_offset is None else max(0, self.end_offset - self.central_offset)


def group_positions(config: HubConfig) -> tuple[GroupPosition, ...]:
    """The published positions of the groups of all edges, in order; empty unless checkpoints are written.

    Raises:
        Unreachable: central does not answer.
    """
    if config.offsets is None or not config.offsets.checkpoints:
        return ()
    told, there = published_positions(config), topic_names(config.central)
    found = [(edge, one) for edge in config.edges for one in _checkpoints(told, checkpoints(edge))]
    places = {(one.topic, one.partition) for _, one in found if one.partition < there.get(one.topic, 0)}
    last: Mapping[tuple[str, int], int] = ends.stable_end_offsets(config.central, places, refused={}) if places else {}
    return tuple(
        GroupPosition(
            edge,
            one.group,
            one.topic,
            one.partition,
            one.upstream_offset,
            one.downstream_offset,
            last.get((one.topic, one.partition)),
        )
        for edge, one in sorted(found)
    )


def _checkpoints(told: PublishedRecords, topic: str) -> Iterable[Checkpoint]:
    for (name, key), value in told.items():
        if name == topic:
            with suppress(ValueError):
                yield checkpoint(key, value)
