"""Retention against record age: would central delete what is about to be replicated?

Invariant: pure. Timestamps are preserved, so central's time retention counts from the record's own time: a topic of
records older than `retention.ms` was seen deleted minutes after it had been written.
"""

from collections.abc import Mapping

from aggregator.replicate.discovery import EdgeTopic


def refusal(
    topic: EdgeTopic, partition: int, central: Mapping[str, str], *, now_ms: int, central_name: str
) -> str | None:
    """Why a new flow must not start, or None.

    An edge deletes whole segments, so its oldest records may be one segment older than its retention; those it has
    promised to nobody, and they pass. What the edge still promises to keep and central would delete is refused.

    Args:
        topic: The edge topic.
        partition: Which partition.
        central: Settings of the central topic.
        now_ms: Central's present.
        central_name: For the sentence.
    """
    oldest = topic.oldest_ms[partition]
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
        f"its oldest record is {age // 86_400_000} days old, and {central_name} at central keeps records for"
        f" {keeps // 86_400_000} days: it would be deleted right after delivery; set `central_config: {{retention.ms:"
        f' "-1"}}` in the rule (or on the topic), or `start:` to a later time'
    )
