"""Compares an edge's logs with the ledger: the unread records of each flow, their age, and how long the edge keeps
them.

Records beyond the last stable offset belong to open transactions at the edge. No consumer may read them. If such a
transaction is never ended, a flow without any lag stands still.

Invariant: this module only reads. An offset is compared only with the topic that the ledger's position belongs to.
Offsets of a recreated topic say nothing about that position.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka.cluster import topic_settings, topics
from aggregator.kafka.readers import ends, single_records
from aggregator.moments import iso
from aggregator.replicate.discovery.edge_topic import start_of
from aggregator.replicate.discovery.retention import Margin, margin
from aggregator.replicate.epoch.plan import skips_gaps
from aggregator.replicate.flow.gaps import deleted, gap
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

TIMEOUT_S = 5.0
_PEEK_S = 2.0
# A transaction at an edge that is open for so long is reported. Clients commit within seconds, and brokers abort after
# a minute, unless the producer asked for more.
_HANGS_MS = 120_000


class UndecidedOffsets(NamedTuple):
    """What open transactions at the edge hold back.

    Attributes:
        records: Offsets from the last stable offset to the high watermark.
        since_ms: Timestamp of the first of them; None where it did not come in time.
    """

    records: int
    since_ms: int | None

    def age_ms(self, now_ms: int) -> int | None:
        """How long the first held record has waited, by its own timestamp."""
        return None if self.since_ms is None else max(0, now_ms - self.since_ms)


NOTHING_UNDECIDED = UndecidedOffsets(0, None)


@dataclass(frozen=True, slots=True)
class EdgeLogs:
    """What the logs of one edge show about the flows of a ledger.

    Attributes:
        unanswered: Flows of partitions that nobody answers for; they hide no other.
        ranges: [first offset, last stable offset) of the flows whose topic is the one that the ledger speaks of.
        recreated: Flows whose topic is another one of the same name.
        unread_ms: Timestamp of the oldest unread record, where one waits.
        margins: Time until it is deleted, where it will be.
        undecided: What open transactions hold back, where they do.
    """

    unanswered: frozenset[EdgePartition] = frozenset()
    ranges: Mapping[EdgePartition, OffsetRange] = field(default_factory=dict)
    recreated: frozenset[EdgePartition] = frozenset()
    unread_ms: Mapping[EdgePartition, int] = field(default_factory=dict)
    margins: Mapping[EdgePartition, Margin] = field(default_factory=dict)
    undecided: Mapping[EdgePartition, UndecidedOffsets] = field(default_factory=dict)


def edge_logs(
    config: HubConfig,
    edge: str,
    entries: Mapping[EdgePartition, LedgerRecord],
    there: Collection[str],
    *,
    now_ms: int,
) -> EdgeLogs:
    """Ask one edge where its logs begin and end.

    Args:
        config: The hub's configuration.
        edge: The edge's name.
        entries: Its flows in the ledger.
        there: Names of the topics that it shows.
        now_ms: The reader's present.

    Raises:
        Unreachable: the edge does not answer.
    """
    cluster = config.edges[edge]
    shown, silent = topics.described_each(cluster, {source.topic for source in entries if source.topic in there})
    flows = {s: (s.topic, s.partition) for s in entries if s.topic in shown}
    flows = {s: at for s, at in flows.items() if s.partition < shown[s.topic].partitions}
    recreated = frozenset(s for s in flows if shown[s.topic].topic_id != entries[s].topic_id)
    same = {s: at for s, at in flows.items() if s not in recreated}
    refused: ends.PartitionErrors = {}
    logs = ends.log_offsets(cluster, same.values(), timeout_s=TIMEOUT_S, refused=refused)
    unanswered = frozenset(s for s in entries if s.topic in silent or same.get(s) in refused)
    same = {s: at for s, at in same.items() if s not in unanswered}
    ranges = {s: logs[at].readable for s, at in same.items()}
    behind = {s: at for s, at in same.items() if entries[s].next_offset < logs[at].last_stable}
    waiting = {at: max(entries[s].next_offset, logs[at].start) for s, at in behind.items()}
    ages = single_records.timestamps_at(cluster, waiting, timeout_s=_PEEK_S)
    oldest = ends.first_timestamps(cluster, behind.values(), refused=refused)
    undecided = {s: at for s, at in same.items() if logs[at].undecided}
    opened = single_records.timestamps_at(
        cluster, {at: logs[at].last_stable for at in undecided.values()}, timeout_s=_PEEK_S, committed=False
    )
    settings = _settings(config, edge, {s.topic for s in behind})
    margins = {
        s: margin(
            settings.get(s.topic, {"cleanup.policy": ""}),
            unread_ms=ages.get(at),
            oldest_ms=oldest.get(at),
            trimmed=logs[at].start > 0,
            now_ms=now_ms,
        )
        for s, at in behind.items()
    }
    return EdgeLogs(
        unanswered=unanswered,
        ranges=ranges,
        recreated=recreated,
        unread_ms={s: ages[at] for s, at in behind.items() if at in ages},
        margins={s: found for s, found in margins.items() if found},
        undecided={s: UndecidedOffsets(logs[at].undecided, opened.get(at)) for s, at in undecided.items()},
    )


def hanging(found: UndecidedOffsets, age_ms: int | None) -> str:
    """The reason why a flow without lag stands still; empty if no old transaction holds it back.

    Args:
        found: Offsets that open transactions hold back.
        age_ms: Age of the first of these records.
    """
    if found.since_ms is None or age_ms is None or age_ms < _HANGS_MS:
        return ""
    return (
        f"a transaction at the edge has been open since {iso(found.since_ms)}, and nobody may read what lies behind it:"
        " `kafka-transactions.sh find-hanging` there names its producer, `abort` ends it"
    )


def _settings(config: HubConfig, edge: str, names: set[str]) -> dict[str, dict[str, str]]:
    """Topic settings; none for a principal that may not describe them, whose margins are then unknown."""
    try:
        return topic_settings.settings(config.edges[edge], names)
    except Unreachable:
        return {}


def gap_of(
    config: HubConfig, source: EdgePartition, entry: LedgerRecord, logs: EdgeLogs | None, *, now_ms: int
) -> Gap | None:
    """The gap of a flow: the ledger's gap with its growth, or a gap that the hub has not met yet.

    Args:
        config: The hub.
        source: The flow.
        entry: The flow's ledger record.
        logs: Logs of its edge; None if the edge does not answer.
        now_ms: The reader's present.
    """
    known = entry.gap
    if logs is None or source in logs.recreated or source in logs.unanswered:
        return known
    log = logs.ranges.get(source)
    if log is None:
        wanted = start_of(config, source.edge, source.topic) and not skips_gaps(config, source.edge, source.topic)
        return deleted(entry, since_ms=now_ms) if wanted else known
    if known is not None and known.kind is GapKind.DELETED:
        known = None  # the topic exists again, and the hub has not noticed yet
    if known is not None and known.kind is GapKind.TRUNCATED:
        return known  # a log that grew again does not bring back what was cut
    mark = log.end + logs.undecided.get(source, NOTHING_UNDECIDED).records
    found = gap(entry.next_offset, log.start, mark, since_ms=known.since_ms if known else now_ms)
    return found or known
