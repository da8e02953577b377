"""Probes one edge: follows the flows that are wanted of it, and asks for its logs every few seconds.

Invariant: this module only reads. The edge's watch asks the quick questions every second. The slow questions are asked
here, in a thread of its own and only while the edge answers, so that they delay nothing else.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS
from aggregator.edges.heartbeats import decode
from aggregator.errors import AggregatorError
from aggregator.kafka.readers import single_records
from aggregator.machine_clock import utc_now_ms
from aggregator.observe.edge_snapshot import EdgeSnapshot, Entries, edge_snapshot
from aggregator.replicate.discovery.edge_watch import EVERY_S, EdgeWatch
from aggregator.threads import Pulse, Threads

_LOGS_EVERY_S = 15.0
# A look reads a batch of every partition that is behind. That is little beside what an edge sends, unless the edge's
# rate is limited.
_LIMITED_EVERY_S = 60.0
_QUESTION_S = 2.0
# Longer than all questions of one turn together, with their time-outs.
_BOUND_S = 300.0


class EdgeProbe:
    """Follows the wanted flows of one edge, and asks for its logs.

    Args:
        config: The hub's configuration.
        watch: The watch of the edge; it may serve others, too.
        entries: The flows that are wanted of it, with their ledger records.
    """

    def __init__(self, config: HubConfig, watch: EdgeWatch, entries: Callable[[], Entries]) -> None:
        self._config = config
        self._watch = watch
        self._entries = entries
        self._latest = EdgeSnapshot()
        watch.follow(entries)

    @property
    def snapshot(self) -> EdgeSnapshot:
        """What the edge showed last."""
        return replace(self._latest, answer=self._watch.answer)

    def start(self, threads: Threads, over: threading.Event) -> None:
        """Start the thread that probes the edge.

        Args:
            threads: The threads of the watcher's process.
            over: Ends the thread when it is set.
        """
        threads.start(f"probe-{self._watch.edge}", partial(self._run, over), stop=over, bound_s=_BOUND_S)

    def _run(self, over: threading.Event, pulse: Pulse) -> None:
        due_s, limit = time.monotonic(), self._config.edges[self._watch.edge].rate_limit
        while not over.is_set():
            pulse()
            now = self._watch.answer
            if now.answered_s is not None and not now.trouble and time.monotonic() >= due_s:
                with suppress(AggregatorError):  # the watch reports what is wrong with the edge
                    self.ask()
                due_s = time.monotonic() + (_LOGS_EVERY_S if limit is None else _LIMITED_EVERY_S)
            over.wait(EVERY_S)

    def ask(self) -> None:
        """Ask for the logs once; without an answer the last ones stay."""
        now_ms = utc_now_ms()
        found = edge_snapshot(self._config, self._watch.edge, self._entries(), now_s=time.monotonic(), now_ms=now_ms)
        if found.logs is not None:
            skew_ms = self._skew_ms() if HEARTBEATS in self._watch.answer.topics else None
            self._latest = replace(found, skew_ms=skew_ms)

    def _skew_ms(self) -> int | None:
        cluster = self._config.edges[self._watch.edge]
        try:
            found = single_records.newest_stamped(cluster, HEARTBEATS, timeout_s=_QUESTION_S)
            return None if found is None else found.stamp_ms - decode(found.key, found.value).timestamp_ms
        except (AggregatorError, ValueError):  # no right to read heartbeats, or another writer's records
            return None
