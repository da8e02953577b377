"""This module compares the age of records with retention: at central before a flow starts, and at a lagging edge.

Invariant: pure. Replication preserves timestamps, so central's retention by time counts from the record's own time.
Records older than `retention.ms` were seen deleted minutes after they had been written.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aggregator.replicate.discovery.edge_topic import EdgeTopic


def why_refused(
    topic: EdgeTopic,
    partition: int,
    central: Mapping[str, str],
    *,
    now_ms: int,
    central_name: str,
    from_start: bool = True,
) -> str | None:
    """Why a new flow must not start, or None.

    An edge deletes whole segments, so its oldest records may be one segment older than its retention. The edge promised
    such records to nobody, so they pass. Records that the edge still promises to keep, but central would delete, are
    refused.

    Args:
        topic: The edge topic.
        partition: Number of the partition.
        central: Settings of the central topic.
        now_ms: Central's present.
        central_name: Name of the central topic, for the sentence.
        from_start: Whether the flow begins at the log's start; otherwise it begins at the rule's `start` and never
            reads older records.
    """
    oldest = topic.oldest_read_ms(partition, from_start=from_start)
    keeps = int(central.get("retention.ms", -1))
    if (
        oldest is None
        or oldest < 0
        or keeps < 0
        or "delete" not in central.get("cleanup.policy", "delete")
        or central.get("message.timestamp.type") == "LogAppendTime"
    ):
        return None
    age = now_ms - oldest
    edge_keeps = int(topic.settings.get("retention.ms", -1))
    segment = int(topic.settings.get("segment.ms", 0))
    promised = edge_keeps < 0 or edge_keeps > keeps or age > edge_keeps + segment
    if age <= keeps or not promised:
        return None
    return (
        f"the oldest record that it would read is {age // 86_400_000} days old, and {central_name} at central keeps"
        f" records for {keeps // 86_400_000} days: it would be deleted right after delivery; set"
        ' `central_config: {retention.ms: "-1"}` in the rule (or on the topic), or `start:` to a later time'
    )


def deleted_at_once(oldest_ms: int | None, keeps_ms: int, *, now_ms: int, central_name: str) -> str | None:
    """Why a backfill must not write records of this age, or None: nobody promised them to central's readers.

    Args:
        oldest_ms: Timestamp of the first record.
        keeps_ms: Central's retention; -1 for ever.
        now_ms: Central's present.
        central_name: Name of the central topic, for the sentence.
    """
    if oldest_ms is None or oldest_ms < 0 or keeps_ms < 0 or now_ms - oldest_ms <= keeps_ms:
        return None
    return (
        f"the first record is {(now_ms - oldest_ms) // 86_400_000} days old, and {central_name} at central keeps"
        f" records for {keeps_ms // 86_400_000} days: raise its retention.ms, or ask for a later beginning"
    )


class Margin(NamedTuple):
    """How long the edge still keeps the oldest unread record, and how long it keeps records; 0 left is any moment."""

    left_ms: int
    keeps_ms: int

    def is_short(self, warning_ms: int) -> bool:
        """Whether to warn: below a tenth of the retention, or below `warning_ms` (half a short retention at most)."""
        return self.left_ms < max(self.keeps_ms // 10, min(warning_ms, self.keeps_ms // 2))


def margin(
    settings: Mapping[str, str], *, unread_ms: int | None, oldest_ms: int | None, trimmed: bool, now_ms: int
) -> Margin | None:
    """The time until the edge deletes the oldest unread record; a lower bound, as whole segments are deleted.

    With retention by time, it follows from the record's age. With retention by size, no broker tells it. Once something
    was deleted, the time that the log spans says how long records last at the present rate of writing.

    Args:
        settings: Settings of the edge topic.
        unread_ms: Timestamp of the oldest unread record; None where nothing waits.
        oldest_ms: Timestamp of the log's first record.
        trimmed: Whether the log's start has moved.
        now_ms: The present.

    Returns:
        None where nothing waits or nothing is ever deleted.
    """
    if unread_ms is None or "delete" not in settings.get("cleanup.policy", "delete"):
        return None
    found = []
    keeps_ms = int(settings.get("retention.ms", -1))
    if keeps_ms >= 0:
        found.append(Margin(max(0, unread_ms + keeps_ms - now_ms), keeps_ms))
    if int(settings.get("retention.bytes", -1)) >= 0 and trimmed and oldest_ms is not None:
        found.append(Margin(max(0, unread_ms - oldest_ms), max(0, now_ms - oldest_ms)))
    return min(found, default=None)
