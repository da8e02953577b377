"""Discovery asks an edge for the topics that the configuration wants.

Invariant: a topic for which no broker answers (no leader, no right) does not hide the others. It is named, and asked
for again with every look. Internal topics are never replicated (MirrorMaker 2's rule).
"""

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain

from aggregator.config.model import ClusterConfig, HubConfig
from aggregator.config.start import MirrorMaker2
from aggregator.coordinates import HEARTBEATS, EdgePartition, Partition
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.readers import ends
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic, Unanswered, start_of
from aggregator.replicate.discovery.topic_settings import following
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.state.ledger import LedgerRecord

_SETTINGS = ("cleanup.policy", "retention.ms", "segment.ms", "max.message.bytes")
# LogAppendTime shows the edge's clock, and lets an edge accept heartbeats even if its clock is far behind the hub's.
BEATS_AT_AN_EDGE = TopicSpec(HEARTBEATS, 1, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
# A new topic gets its leaders shortly after its creation.
_ELECTION_S, _ELECTION_LOOK_S = 3.0, 0.1
log = logging.getLogger(__name__)


def snapshot(
    config: HubConfig, edge: str, known: Mapping[str, EdgeTopic], before: Collection[str] = ()
) -> DiscoveredTopics:
    """Ask an edge for its topics; offsets and settings only for topics whose id or partition count is new.

    Args:
        config: The hub.
        edge: Name of the edge.
        known: Topics that the edge showed before.
        before: Topics for which no broker answered before; no leader of theirs is waited for.

    Raises:
        Unreachable: the edge does not answer.
    """
    return discover_topics(config, edge, topics.topic_names(config.edges[edge]), known, before)


def discover_topics(
    config: HubConfig,
    edge: str,
    counts: Mapping[str, int],
    known: Mapping[str, EdgeTopic],
    before: Collection[str],
) -> DiscoveredTopics:
    """Take a snapshot as `snapshot` does, from partition counts that are already known.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        counts: Partitions of each of its topics, replicated or not.
        known: Topics that the edge showed before.
        before: Topics for which no broker answered before.
    """
    cluster = config.edges[edge]
    wanted = {name for name in counts if start_of(config, edge, name) is not None}
    shown, refused = _described(cluster, wanted, {*known, *before})
    fresh = {
        name: topic
        for name, topic in shown.items()
        if name not in known or known[name].shape != (topic.topic_id, topic.partitions)
    }
    refused |= {name: _leaderless(topic) for name, topic in fresh.items() if topic.leaderless}
    found, silent = _detailed(config, edge, {name: topic for name, topic in fresh.items() if name not in refused})
    # A described topic continues only under its former id. A topic that could not be described may be unchanged.
    same = {name: known[name] for name in known.keys() & wanted if name not in shown and name in refused}
    same |= {name: known[name] for name in known.keys() & shown.keys() if known[name].topic_id == shown[name].topic_id}
    return DiscoveredTopics(
        same | found,
        {name: Unanswered(counts[name], why) for name, why in (refused | silent).items()},
    )


def _described(
    cluster: ClusterConfig, names: Collection[str], before: Collection[str]
) -> tuple[dict[str, topics.Topic], dict[str, str]]:
    """Topics with their ids; the first leaders of new topics are awaited for a moment."""
    deadline = time.monotonic() + _ELECTION_S
    while True:
        shown, refused = topics.described_each(cluster, names)
        elected = not any(topic.leaderless and name not in before for name, topic in shown.items())
        if elected or time.monotonic() > deadline:
            return shown, refused
        time.sleep(_ELECTION_LOOK_S)


def _leaderless(topic: topics.Topic) -> str:
    which = ", ".join(map(str, topic.leaderless))
    return f"no broker leads partition {which}: is a broker of the edge away?"


def _detailed(
    config: HubConfig, edge: str, fresh: Mapping[str, topics.Topic]
) -> tuple[dict[str, EdgeTopic], dict[str, str]]:
    """Offsets and settings of topics, and silent topics; two hundred topics cost as many requests as one."""
    cluster = config.edges[edge]
    settings, silent = topic_settings.settings_each(cluster, fresh)
    at = {name: [(name, p) for p in range(topic.partitions)] for name, topic in fresh.items() if name in settings}
    every = list(chain.from_iterable(at.values()))
    refused: ends.PartitionErrors = {}
    logs = ends.log_offsets(cluster, every, refused=refused)
    oldest = ends.first_timestamps(cluster, every, refused=refused)
    answered = {name: some for name, some in at.items() if not refused.keys() & set(some)}
    initial_offsets = {place: log.start for place, log in logs.items()}
    initial_offsets |= _later_starts(config, edge, answered, logs, refused)
    silent |= {name: why for (name, _), why in refused.items()}
    return {
        name: EdgeTopic(
            name,
            fresh[name].topic_id,
            tuple(logs[p].start for p in some),
            tuple(initial_offsets[p] for p in some),
            tuple(logs[p].last_stable for p in some),
            tuple(oldest.get(p) for p in some),
            _kept(settings[name]),
            tuple(logs[p].undecided for p in some),
            tuple(logs[p].leader_epoch for p in some),
            _firsts_ms(
                config,
                edge,
                name,
                [initial_offsets[p] < logs[p].last_stable for p in some],
                [oldest.get(p) for p in some],
            ),
            following(*settings[name]),
        )
        for name, some in answered.items()
        if name not in silent
    }, silent


def _kept(settings: topic_settings.Settings) -> dict[str, str]:
    return {key: settings.values[key] for key in _SETTINGS if key in settings.values}


def refresh_settings(cluster: ClusterConfig, known: Mapping[str, EdgeTopic]) -> dict[str, EdgeTopic]:
    """Known topics with their present settings; a topic that does not tell them stays as it was.

    Args:
        cluster: The edge.
        known: Topics that the edge showed before.
    """
    settings, _ = topic_settings.settings_each(cluster, known)
    return {
        name: replace(topic, settings=_kept(settings[name]), synced_settings=following(*settings[name]))
        if name in settings
        else topic
        for name, topic in known.items()
    }


def _firsts_ms(
    config: HubConfig, edge: str, name: str, waits: Iterable[bool], oldest: Iterable[int | None]
) -> tuple[int | None, ...]:
    """By partition, the first timestamp that a rule's `start` lets through, or an earlier one; none where it begins at
    the log's start, or where MirrorMaker 2 stands, which is asked for when an epoch opens.

    Args:
        config: The hub.
        edge: Name of the edge.
        name: The topic.
        waits: Whether anything lies behind the first offset, by partition.
        oldest: Timestamp of the log's first record, by partition.
    """
    start = start_of(config, edge, name)
    if start == "earliest" or isinstance(start, MirrorMaker2):
        return ()
    bound_ms = int(start.timestamp() * 1000) if isinstance(start, datetime) else 0
    return tuple(
        max(ms, bound_ms) if waiting and ms is not None else None for waiting, ms in zip(waits, oldest, strict=True)
    )


def _later_starts(
    config: HubConfig,
    edge: str,
    at: Mapping[str, Sequence[Partition]],
    logs: Mapping[Partition, ends.LogOffsets],
    refused: ends.PartitionErrors,
) -> dict[Partition, int]:
    """Where flows begin whose rule says `latest` or a time; `latest` is the last stable offset, as for any reader of
    committed records: a transaction that is open then comes when it is decided.
    """
    by_start: dict[str | datetime | MirrorMaker2, list[Partition]] = {}
    for name, partitions in at.items():
        by_start.setdefault(start_of(config, edge, name) or "earliest", []).extend(partitions)
    found: dict[Partition, int] = {}
    for start, partitions in by_start.items():
        if isinstance(start, datetime):
            found |= ends.offsets_at(config.edges[edge], partitions, start, refused=refused)
        elif start == "latest":
            found |= {partition: logs[partition].last_stable for partition in partitions}
    return found


def unanswered_holds(shown: Mapping[str, DiscoveredTopics]) -> list[Hold]:
    """The holds of the flows of topics for which no broker answers.

    Args:
        shown: Topics by edge.
    """
    return [
        Hold(EdgePartition(edge, name, partition), HoldReason.DISCOVERY, one.why)
        for edge, seen in shown.items()
        for name, one in seen.unanswered.items()
        if name not in seen.topics
        for partition in range(one.partitions)
    ]


def drop_unanswered(
    ledger: Mapping[EdgePartition, LedgerRecord], shown: Mapping[str, DiscoveredTopics]
) -> Mapping[EdgePartition, LedgerRecord]:
    """The ledger without flows of topics for which no broker answers; these do not count as deleted.

    Args:
        ledger: Winning records.
        shown: Topics by edge.
    """
    waiting = {(edge, name) for edge, seen in shown.items() for name in seen.unanswered.keys() - seen.topics.keys()}
    if not waiting:
        return ledger
    return {source: entry for source, entry in ledger.items() if (source.edge, source.topic) not in waiting}
