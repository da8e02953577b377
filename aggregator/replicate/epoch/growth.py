"""This module decides when an epoch ends because an edge got new topics or partitions.

Several topics that are created one after the other end the epoch only once, because all flows stand still while epochs
change.

Invariant: pure. A change to a flow that runs ends the epoch at once: another topic id, a deleted topic, other settings.
An edge that answers for the first time also ends it at once. An addition waits until a complete look at its edge has
found nothing more. The wait is bounded (`MAX_S`).
"""

from collections.abc import Mapping

from aggregator.replicate.discovery.central_topics import Snapshots
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics

# The shape of a topic, as `EdgeFollower` compares it: id and partitions, then the settings that follow to central.
Shape = tuple[tuple[str, int], object]
Shapes = Mapping[str, Mapping[str, Shape]]

# On a busy machine with two cores, a broker took 37 seconds to create two hundred topics.
MAX_S = 60.0


def shapes_of(snapshots: Snapshots, *, with_settings: bool) -> dict[str, dict[str, Shape]]:
    """By edge what ends an epoch when it changes: topics, their ids and their partition counts.

    Args:
        snapshots: What edges show.
        with_settings: Whether settings count that follow to central: a topic's limits are asked for when it is planned.
    """
    return {
        edge: {name: (topic.shape, topic.synced_settings if with_settings else None) for name, topic in shown.items()}
        for edge, shown in snapshots.items()
    }


class Growth:
    """Tracks the topics and partitions that edges got since an epoch opened.

    Args:
        before: Topics with which the epoch opened.
        shown: Topics that the edges showed then; topics for which no broker answered are not waited for.
    """

    def __init__(self, before: Shapes, shown: Mapping[str, DiscoveredTopics]) -> None:
        self._before = before
        self._unanswered = {edge: frozenset(one.unanswered) for edge, one in shown.items()}
        self._seen: Shapes = before
        self._looks: Mapping[str, DiscoveredTopics] = {}
        self._since_s: float | None = None

    def is_over(self, now: Shapes, shown: Mapping[str, DiscoveredTopics], now_s: float) -> bool:
        """Whether the differences from the epoch's opening call for its end.

        Args:
            now: Topics that the edges have now.
            shown: Last answers of the edges; each look makes a new object.
            now_s: The present, on a clock that only goes forward.
        """
        if not _adds(self._before, now):
            return True
        if self._since_s is None:
            self._since_s = now_s
        if now != self._seen:
            self._seen, self._looks = now, dict(shown)
        return now_s - self._since_s >= MAX_S or all(self._is_calm(edge, shown[edge]) for edge in self._grown(now))

    def _grown(self, now: Shapes) -> list[str]:
        return [edge for edge, topics in now.items() if topics != self._before.get(edge)]

    def _is_calm(self, edge: str, shown: DiscoveredTopics) -> bool:
        """Whether a look after the one that found the newest topic found no other, and each has its leaders."""
        fresh = shown.unanswered.keys() - shown.topics.keys() - self._unanswered.get(edge, frozenset())
        return shown is not self._looks[edge] and not fresh


def _adds(before: Shapes, now: Shapes) -> bool:
    """Whether `now` has all that was before as it was, and only more topics and partitions beside."""
    if before.keys() != now.keys():
        return False
    return all(
        name in now[edge] and _is_wider(shape, now[edge][name])
        for edge, topics in before.items()
        for name, shape in topics.items()
    )


def _is_wider(before: Shape, now: Shape) -> bool:
    (topic_id, partitions), settings = before
    (now_id, now_partitions), now_settings = now
    return (topic_id, settings) == (now_id, now_settings) and now_partitions >= partitions
