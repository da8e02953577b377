"""The probe of one edge: asks it every second whether it answers and how far its logs go, and more every few seconds.

Invariant: reads only, in a thread of its own, so that a silent edge delays nobody; its last answer stays with the
moment at which it was given, on a clock that only goes forward.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition, Position
from aggregator.edges.heartbeats import decode
from aggregator.errors import AggregatorError
from aggregator.kafka import ends, peek, topics
from aggregator.observe.edge_lag import EdgeLook, gap_of, look
from aggregator.state.gap import Gap
from aggregator.state.ledger import LedgerRecord
from aggregator.threads import Pulse, Threads

EVERY_S = 1.0
LOOK_EVERY_S = 15.0
# A question that a healthy edge answers in a few ms; three missed beats are to be known in five seconds.
_QUESTION_S = 2.0
# Longer than all questions of one look together, each with its time-outs.
_BOUND_S = 300.0
Entries = Mapping[EdgePartition, LedgerRecord]


@dataclass(frozen=True, slots=True)
class Probed:
    """What an edge last showed; moments are of the watcher's clock.

    Attributes:
        answered_s: When it last answered; None: not yet.
        trouble: What its last error said; empty while it answers.
        ends_s: When the ends were asked for.
        ends: Last stable offset by flow.
        looked_s: When it was last looked at.
        look: What was seen then.
        gaps: Gaps of its flows, as far as they can be seen, each with the position that it was seen from.
        skew_ms: Its clock less that of whoever wrote its last heartbeat; None where it does not stamp them.
        topics: What it has, replicated or not, with partitions.
    """

    answered_s: float | None = None
    trouble: str = ""
    ends_s: float = 0.0
    ends: Mapping[EdgePartition, int] = field(default_factory=dict)
    looked_s: float | None = None
    look: EdgeLook | None = None
    gaps: Mapping[EdgePartition, tuple[Position, Gap]] = field(default_factory=dict)
    skew_ms: int | None = None
    topics: Mapping[str, int] = field(default_factory=dict)


class EdgeProbe:
    """Probes one edge.

    Args:
        config: The hub.
        edge: Which one.
        entries: The flows that are wanted of it, with their ledger records.
    """

    def __init__(self, config: HubConfig, edge: str, entries: Callable[[str], Entries]) -> None:
        self.probed = Probed()
        self._config = config
        self._cluster = config.edges[edge]
        self._edge = edge
        self._entries = entries

    def start(self, threads: Threads, over: threading.Event) -> None:
        """Probe in a thread, at most once a second.

        Args:
            threads: Of the watcher's process.
            over: Ends it.
        """

        def run(pulse: Pulse) -> None:
            self._run(pulse, over)

        threads.start(f"probe-{self._edge}", run, stop=over, bound_s=_BOUND_S)

    def _run(self, pulse: Pulse, over: threading.Event) -> None:
        while not over.is_set():
            pulse()
            began = time.monotonic()
            try:
                self._probe()
            except AggregatorError as error:
                self.probed = replace(self.probed, trouble=error.message)
            over.wait(max(0.1, EVERY_S - (time.monotonic() - began)))

    def _probe(self) -> None:
        there = topics.topic_names(self._cluster, timeout_s=_QUESTION_S)
        self.probed = replace(self.probed, answered_s=time.monotonic(), trouble="", topics=there)
        entries = self._entries(self._edge)
        flows = {s: (s.topic, s.partition) for s in entries if s.partition < there.get(s.topic, 0)}
        asked_s = time.monotonic()
        found = ends.stable_end_offsets(self._cluster, flows.values(), timeout_s=_QUESTION_S, refused={})
        shown = {s: found[at] for s, at in flows.items() if at in found}
        self.probed = replace(self.probed, ends_s=asked_s, ends=shown)
        if self.probed.looked_s is None or time.monotonic() - self.probed.looked_s >= LOOK_EVERY_S:
            self._look(entries, there)

    def _look(self, entries: Entries, there: Mapping[str, int]) -> None:
        now_ms = int(time.time() * 1000)
        seen = look(self._config, self._edge, entries, now_ms=now_ms)
        lacking = {s: gap_of(self._config, s, entry, seen, now_ms=now_ms) for s, entry in entries.items()}
        gaps = {s: (entries[s].position, lost) for s, lost in lacking.items() if lost is not None}
        skew_ms = self._skew_ms() if HEARTBEATS in there else None
        self.probed = replace(self.probed, looked_s=time.monotonic(), look=seen, gaps=gaps, skew_ms=skew_ms)

    def _skew_ms(self) -> int | None:
        try:
            found = peek.newest_stamped(self._cluster, HEARTBEATS, patience_s=_QUESTION_S)
            return None if found is None else found.stamp_ms - decode(found.key, found.value).timestamp_ms
        except (AggregatorError, ValueError):  # no right to read them, or somebody writes other things there
            return None
