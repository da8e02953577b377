"""Discovery: what an edge shows of the topics that the configuration wants, one watching thread per edge.

Invariant: an edge that does not answer delays nobody; its last snapshot stays true until a newer one arrives.
Internal topics are never replicated (MirrorMaker 2's rule).
"""

import logging
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.errors import AggregatorError
from aggregator.kafka import ends, topics
from aggregator.kafka.names import HEARTBEATS
from aggregator.threads import Pulse, Threads

_INTERNAL = re.compile(r"__.*|\..*|.*[\-\.]internal|.*\.replica")
_SETTINGS = ("cleanup.policy", "retention.ms", "segment.ms", "max.message.bytes")
# Its own stamps show the edge's clock, and an edge whose clock is far behind ours takes our beats all the same.
BEATS_AT_AN_EDGE = topics.TopicSpec(
    HEARTBEATS, 1, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"}
)
# Longer than all questions of one look together, each with its time-outs.
_BOUND_S = 300.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EdgeTopic:
    """One wanted edge topic, as it was when its id and partition count were first seen.

    Attributes:
        name: Topic.
        topic_id: Changes when the topic is created again.
        starts: First offset per partition.
        firsts: Offset per partition at which the rule's `start` begins.
        ends: Last stable offset per partition at that moment: what `--drain` must reach.
        oldest_ms: Timestamp of each partition's first record, None where it is empty.
        settings: Topic settings that central must respect.
        undecided: Offsets per partition that open transactions kept from every reader then, behind the last stable one.
        leader_epochs: Of each partition's leader, just before the ends were asked for; where the edge tells.
    """

    name: str
    topic_id: str
    starts: tuple[int, ...]
    firsts: tuple[int, ...]
    ends: tuple[int, ...]
    oldest_ms: tuple[int | None, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    undecided: tuple[int, ...] = ()
    leader_epochs: tuple[int | None, ...] = ()

    @property
    def shape(self) -> tuple[str, int]:
        """What makes an epoch end when it changes."""
        return self.topic_id, len(self.starts)

    def epoch_before(self, partition: int, offset: int) -> int | None:
        """A leader epoch between those of the records before and behind an offset: known where nothing is behind it."""
        at_the_end = offset == self.ends[partition] and not (self.undecided and self.undecided[partition])
        return self.leader_epochs[partition] if at_the_end and self.leader_epochs else None


def is_internal(topic: str) -> bool:
    """Whether MirrorMaker 2 would never copy this topic either."""
    return _INTERNAL.fullmatch(topic) is not None


def start_of(config: HubConfig, edge: str, topic: str) -> str | datetime | None:
    """Where a flow of this topic begins, or None when nothing wants the topic."""
    if topic == HEARTBEATS:
        return "earliest"
    rule = None if is_internal(topic) else rule_for(config, edge, topic)
    return rule.start if rule else None


def snapshot(config: HubConfig, edge: str, known: Mapping[str, EdgeTopic]) -> dict[str, EdgeTopic]:
    """Ask an edge what it has; offsets and settings only for topics whose id or partition count is new.

    Raises:
        Unreachable: the edge does not answer.
    """
    cluster = config.edges[edge]
    wanted = {name for name in topics.topic_names(cluster) if start_of(config, edge, name) is not None}
    shown = topics.described(cluster, wanted)
    fresh = {
        name: topic
        for name, topic in shown.items()
        if name not in known or known[name].shape != (topic.topic_id, topic.partitions)
    }
    return {name: known[name] for name in shown if name not in fresh} | _detailed(config, edge, fresh)


def _detailed(config: HubConfig, edge: str, fresh: Mapping[str, topics.Topic]) -> dict[str, EdgeTopic]:
    """Offsets and settings of topics, in as many questions for two hundred of them as for one."""
    cluster = config.edges[edge]
    settings = topics.settings(cluster, fresh)
    at = {name: [(name, partition) for partition in range(topic.partitions)] for name, topic in fresh.items()}
    every = list(chain.from_iterable(at.values()))
    starts, marks = ends.start_offsets(cluster, every), ends.log_ends(cluster, every)
    stable = ends.stable_end_offsets(cluster, every)  # after the others: what grows meanwhile is not undecided
    oldest = ends.first_timestamps(cluster, every)
    firsts = starts | _later_starts(config, edge, at, stable)
    return {
        name: EdgeTopic(
            name,
            topic.topic_id,
            tuple(starts[p] for p in at[name]),
            tuple(firsts[p] for p in at[name]),
            tuple(stable[p] for p in at[name]),
            tuple(oldest.get(p) for p in at[name]),
            {key: settings[name][key] for key in _SETTINGS if key in settings[name]},
            tuple(max(0, marks[p].offset - stable[p]) for p in at[name]),
            tuple(marks[p].leader_epoch for p in at[name]),
        )
        for name, topic in fresh.items()
    }


def _later_starts(
    config: HubConfig,
    edge: str,
    at: Mapping[str, Sequence[ends.Partition]],
    stable: Mapping[ends.Partition, int],
) -> dict[ends.Partition, int]:
    """Where flows begin whose rule does not say `earliest`; `latest` is the last stable offset, as for any reader of
    committed records: a transaction that is open then comes when it is decided.
    """
    by_start: dict[str | datetime, list[ends.Partition]] = {}
    for name, partitions in at.items():
        by_start.setdefault(start_of(config, edge, name) or "earliest", []).extend(partitions)
    found: dict[ends.Partition, int] = {}
    for start, partitions in by_start.items():
        if isinstance(start, datetime):
            found |= ends.offsets_at(config.edges[edge], partitions, start)
        elif start != "earliest":
            found |= {partition: stable[partition] for partition in partitions}
    return found


class EdgeWatch:
    """Looks at one edge once a second, in its own thread, and keeps the last answer."""

    def __init__(self, config: HubConfig, edge: str, *, every_s: float = 1.0) -> None:
        self.edge = edge
        self.topics: dict[str, EdgeTopic] | None = None
        self.trouble: str | None = None
        self._config = config
        self._every_s = every_s
        self._stop = threading.Event()

    def start(self, threads: Threads) -> None:
        """Begin to look.

        Args:
            threads: Of the driver's process.
        """
        threads.start(f"edge-{self.edge}", self._watch, stop=self._stop, bound_s=_BOUND_S)

    def stop(self) -> None:
        """Stop looking; does not wait for an answer that is under way."""
        self._stop.set()

    def _watch(self, pulse: Pulse) -> None:
        while not self._stop.is_set():
            pulse()
            began = time.monotonic()
            try:
                self._look()
            except AggregatorError as error:
                if self.trouble is None:
                    log.warning("edge %s: %s", self.edge, error.message)
                self.trouble = error.message
            self._stop.wait(max(0.1, self._every_s - (time.monotonic() - began)))

    def _look(self) -> None:
        if self.topics is None and self._config.heartbeats.emit:
            self._ensure_heartbeats()
        self.topics = snapshot(self._config, self.edge, self.topics or {})
        if self.trouble is not None:
            log.info("edge %s answers again", self.edge)
        self.trouble = None

    def _ensure_heartbeats(self) -> None:
        cluster = self._config.edges[self.edge]
        try:
            topics.ensure(cluster, [BEATS_AT_AN_EDGE])
        except AggregatorError as error:
            topics.topic_names(cluster)  # an edge that does not answer is trouble; a missing right is not
            log.warning("edge %s: heartbeats can not be written: %s", self.edge, error.message)
