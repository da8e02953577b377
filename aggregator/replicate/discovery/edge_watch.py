"""The watch asks one edge once a second for its topics, and for the ends of the logs that flows read.

Invariant: each edge has one loop per process, in a thread of its own, so an edge that does not answer delays no other.
The last answer is kept, with its time on a clock that only goes forward. A watch without discovery only reads, and asks
only about topics that have flows.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition
from aggregator.errors import AggregatorError, HoldError
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.cluster_metadata import cluster_metadata
from aggregator.kafka.readers import ends
from aggregator.replicate.discovery.discovery import BEATS_AT_AN_EDGE, discover_topics, refresh_settings
from aggregator.replicate.discovery.edge_topic import DiscoveredTopics, EdgeTopic, Unanswered
from aggregator.threads import Pulse, Threads

EVERY_S = 1.0
# A healthy edge answers in a few ms. The answer to the first question is long if the edge is large.
_TOPICS_TIMEOUT_S, _ENDS_TIMEOUT_S = 5.0, 2.0
# How often the settings of known topics are asked for, if central's settings follow them.
_SETTINGS_EVERY_S = 30.0
# How often the topic of heartbeats is made anew where it is gone; each refusal is logged.
_BEATS_EVERY_S = 60.0
# Longer than all questions of one turn take together, with their time-outs.
_BOUND_S = 300.0
# The log names at most so many waiting topics at once, because two hundred topics may be created together.
_MAX_NAMED = 5
# The age at which a client that reached a foreign cluster is replaced.
_FOREIGN_S = 5.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EdgeAnswer:
    """Holds the last answer of an edge.

    Attributes:
        answered_s: Time of the answer; None before the first.
        trouble: Text of the edge's last error; empty while it answers.
        topics: Number of partitions of each topic of the edge, replicated or not.
        ends_s: Time at which the ends were asked for.
        ends: Last stable offset by flow.
        cluster_id: Id of the cluster that answered; empty if it tells none.
        foreign: Reason why that cluster is not the edge's own, in which case its topics are ignored; empty if it is the
            edge's own.
    """

    answered_s: float | None = None
    trouble: str = ""
    topics: Mapping[str, int] = field(default_factory=dict)
    ends_s: float = 0.0
    ends: Mapping[EdgePartition, int] = field(default_factory=dict)
    cluster_id: str = ""
    foreign: str = ""


class ForeignCluster(HoldError):
    """Another cluster answers in the place of an edge's own."""


class EdgeWatch:
    """Asks one edge once a second, in its own thread, and keeps the last answer.

    Args:
        config: The hub.
        edge: Name of the edge.
        judge: Function of an edge's name and the id of the cluster that answers; it returns why that cluster is a
            foreign one, if it is.
        discovers: Whether the watch looks for the topics that the configuration wants, which a driver needs.
    """

    def __init__(
        self, config: HubConfig, edge: str, judge: Callable[[str, str], str], *, discovers: bool = True
    ) -> None:
        self.edge = edge
        self.answer = EdgeAnswer()
        self.shown: DiscoveredTopics | None = None
        self._config = config
        self._cluster = config.edges[edge]
        self._judge = judge
        self._discovers = discovers
        self._settings_s = self._beats_s = -math.inf
        self._flows: Callable[[], Iterable[EdgePartition]] | None = None
        self._stop = threading.Event()

    @property
    def topics(self) -> Mapping[str, EdgeTopic] | None:
        """The topics that can be replicated; None before the first answer."""
        return None if self.shown is None else self.shown.topics

    def follow(self, flows: Callable[[], Iterable[EdgePartition]]) -> None:
        """Ask for the ends of these flows too, from now on.

        Args:
            flows: Those of this edge that are wanted, asked for at every turn.
        """
        self._flows = flows

    def start(self, threads: Threads) -> None:
        """Start the thread that asks the edge.

        Args:
            threads: The threads of this process.
        """
        threads.start(f"edge-{self.edge}", self._watch, stop=self._stop, bound_s=_BOUND_S)

    def stop(self) -> None:
        """Stop asking, without waiting for an answer that is under way."""
        self._stop.set()

    def _watch(self, pulse: Pulse) -> None:
        while not self._stop.is_set():
            pulse()
            began = time.monotonic()
            self.ask()
            self._stop.wait(max(0.1, EVERY_S - (time.monotonic() - began)))

    def ask(self) -> None:
        """Ask the edge once; an edge that does not answer is recorded as well."""
        before = self.answer.trouble
        try:
            there = self._known_leaders()
            if self._lacks_heartbeats(there):
                self._ensure_heartbeats()
                there = self._known_leaders()
            counts = {name: len(led) for name, led in there.items()}
            self.answer = replace(self.answer, answered_s=time.monotonic(), trouble="", topics=counts)
            if self._discovers:
                self._discover(counts)
            if self._flows is not None:
                self._ask_ends(there, self._flows())
        except AggregatorError as error:
            self.answer = replace(self.answer, trouble=error.message)
        self._tell(before)

    def _known_leaders(self) -> Mapping[str, tuple[bool, ...]]:
        """Its topics, if its own cluster answers. Of another one nothing is kept, as if the edge did not answer.

        Raises:
            ForeignCluster: another one answers.
            Unreachable: nobody does.
        """
        seen = cluster_metadata(self._cluster, timeout_s=_TOPICS_TIMEOUT_S)
        why = self._judge(self.edge, seen.cluster_id)
        self.answer = replace(self.answer, cluster_id=seen.cluster_id, foreign=why)
        if why:
            self.shown = None
            # A client keeps the brokers that it learned, even when the address leads to the right cluster again.
            clients.renew_admin(self._cluster, older_than_s=_FOREIGN_S)
            raise ForeignCluster(why, hint="aggregator doctor shows which cluster answers under each name")
        return seen.leaders

    def _discover(self, counts: Mapping[str, int]) -> None:
        before = self.shown or DiscoveredTopics({})
        shown = discover_topics(self._config, self.edge, counts, before.topics, before.unanswered)
        if self._config.config_sync == "apply" and time.monotonic() - self._settings_s > _SETTINGS_EVERY_S:
            shown = replace(shown, topics=refresh_settings(self._cluster, shown.topics))
            self._settings_s = time.monotonic()
        if self._shapes(shown) != self._shapes(before):
            self._known_leaders()  # the right cluster before and after proves the answers in between
        self.shown = shown
        self._tell_unanswered(before.unanswered, self.shown.unanswered)

    @staticmethod
    def _shapes(shown: DiscoveredTopics) -> dict[str, tuple[str, int]]:
        return {name: topic.shape for name, topic in shown.topics.items()}

    def _ask_ends(self, there: Mapping[str, tuple[bool, ...]], flows: Iterable[EdgePartition]) -> None:
        """Ask for the ends, except of partitions without a leader, which would delay all others until the time-out."""
        at = {source: (source.topic, source.partition) for source in flows if _is_led(there, source)}
        asked_s = time.monotonic()
        found = ends.stable_end_offsets(self._cluster, at.values(), timeout_s=_ENDS_TIMEOUT_S, refused={})
        answered_s = time.monotonic() if found else self.answer.answered_s
        known = {source: found[place] for source, place in at.items() if place in found}
        self.answer = replace(self.answer, answered_s=answered_s, ends_s=asked_s, ends=known)

    def _tell(self, before: str) -> None:
        """Log once that the edge went silent, and once that it answers again; never without discovery."""
        trouble = self.answer.trouble
        if self._discovers and trouble and not before:
            log.warning("edge %s: %s", self.edge, trouble)
        if self._discovers and before and not trouble:
            log.info("edge %s answers again", self.edge)

    def _tell_unanswered(self, before: Mapping[str, Unanswered], now: Mapping[str, Unanswered]) -> None:
        fresh = [name for name, one in now.items() if name not in before or before[name].why != one.why]
        for name in fresh[:_MAX_NAMED]:
            log.warning("edge %s: topic %s waits, the others do not: %s", self.edge, name, now[name].why)
        if more := fresh[_MAX_NAMED:]:
            log.warning(
                "edge %s: %d more topics wait, as `aggregator status` tells: %s, …", self.edge, len(more), more[0]
            )
        over = sorted(before.keys() - now.keys())
        for name in over[:_MAX_NAMED]:
            log.info("edge %s: topic %s waits no more", self.edge, name)
        if more := over[_MAX_NAMED:]:
            log.info("edge %s: %d more topics wait no more", self.edge, len(more))

    def _lacks_heartbeats(self, there: Collection[str]) -> bool:
        """Whether their topic is to be made: at the start, and where somebody deleted it since."""
        is_due = time.monotonic() - self._beats_s > _BEATS_EVERY_S
        return self._discovers and self._config.heartbeats.emit and HEARTBEATS not in there and is_due

    def _ensure_heartbeats(self) -> None:
        try:
            topics.ensure(self._cluster, [BEATS_AT_AN_EDGE])
        except AggregatorError as error:
            topics.topic_names(self._cluster)  # raises an error if the edge is silent; a missing right is only logged
            log.warning("edge %s: heartbeats cannot be written: %s", self.edge, error.message)
        self._beats_s = time.monotonic()


def _is_led(there: Mapping[str, tuple[bool, ...]], source: EdgePartition) -> bool:
    led = there.get(source.topic, ())
    return source.partition < len(led) and led[source.partition]
