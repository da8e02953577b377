"""This module describes the wanted topics of an edge as they were first seen, and decides which topics are wanted.

Invariant: this module holds values and rules only. `discovery.py` asks the edge.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import NamedTuple

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import HEARTBEATS

_INTERNAL = re.compile(r"__.*|\..*|.*[\-\.]internal|.*\.replica")


@dataclass(frozen=True, slots=True)
class EdgeTopic:
    """A wanted edge topic, as it was when its id and partition count were first seen.

    Attributes:
        name: Name of the topic.
        topic_id: Id of the topic; it changes when the topic is created again.
        log_start_offsets: First offset per partition.
        initial_offsets: Offset per partition at which the rule's `start` begins.
        last_stable_offsets: Last stable offset per partition at that moment: what `--drain` must reach.
        oldest_ms: Timestamp of each partition's first record, None where it is empty.
        settings: Topic settings that central must respect.
        undecided: Offsets per partition that open transactions kept from every reader then, behind the last stable one.
        leader_epochs: Epoch of each partition's leader just before the ends were asked for, if the edge tells it.
        initial_timestamps_ms: Timestamps as in `oldest_ms` for the records at `initial_offsets`, or earlier; empty if
            every flow begins at `log_start_offsets`.
        synced_settings: Settings that follow to central, as the edge showed them last.
        copied: Offset per partition below which MirrorMaker 2 had copied everything when flows begin there; 0: nothing.
        takeover_fault: Reason why no flow can begin at the rule's `start`; empty if all can.
    """

    name: str
    topic_id: str
    log_start_offsets: tuple[int, ...]
    initial_offsets: tuple[int, ...]
    last_stable_offsets: tuple[int, ...]
    oldest_ms: tuple[int | None, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    undecided: tuple[int, ...] = ()
    leader_epochs: tuple[int | None, ...] = ()
    initial_timestamps_ms: tuple[int | None, ...] = ()
    synced_settings: Mapping[str, str] = field(default_factory=dict)
    copied: tuple[int, ...] = ()
    takeover_fault: str = ""

    def oldest_read_ms(self, partition: int, *, from_start: bool) -> int | None:
        """Timestamp of the oldest record that a new flow reads, or an earlier one; None where nothing waits for it.

        Args:
            partition: Number of the partition.
            from_start: Whether the flow begins at the log's start instead of at the rule's `start`.
        """
        if from_start or not self.initial_timestamps_ms:
            return self.oldest_ms[partition]
        return self.initial_timestamps_ms[partition]

    @property
    def shape(self) -> tuple[str, int]:
        """The part of the topic whose change ends an epoch."""
        return self.topic_id, len(self.log_start_offsets)

    def leader_epoch_before(self, partition: int, offset: int) -> int | None:
        """The leader epoch at an offset; it is known only at the end of the log."""
        at_the_end = offset == self.last_stable_offsets[partition] and not (
            self.undecided and self.undecided[partition]
        )
        return self.leader_epochs[partition] if at_the_end and self.leader_epochs else None


class Unanswered(NamedTuple):
    """A topic that the edge has, but for which no broker answers.

    Attributes:
        partitions: Number of its partitions.
        why: Reason in words.
    """

    partitions: int
    why: str


@dataclass(frozen=True, slots=True)
class DiscoveredTopics:
    """Holds the topics that an edge showed.

    Attributes:
        topics: Topics that can be replicated, by name.
        unanswered: Topics for which no broker answers; one does not hide another. Known topics may be among `topics`
            too.
    """

    topics: Mapping[str, EdgeTopic]
    unanswered: Mapping[str, Unanswered] = field(default_factory=dict)


def is_internal(topic: str) -> bool:
    """Whether MirrorMaker 2 would never copy this topic either."""
    return _INTERNAL.fullmatch(topic) is not None


def start_of(config: HubConfig, edge: str, topic: str) -> str | datetime | MirrorMaker2 | None:
    """The start of a flow of this topic, or None if no rule wants the topic."""
    if topic == HEARTBEATS:
        return "earliest"
    rule = None if is_internal(topic) else rule_for(config, edge, topic)
    return rule.start if rule else None
