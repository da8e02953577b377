"""Looks at the lake's tables every few seconds, in a thread of its own, because the tables may lie on slow storage.

Invariant: this module only reads. Tables that do not answer are looked at again, and the last answer stays.
"""

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition
from aggregator.errors import AggregatorError
from aggregator.lake.status import TableStatus, lake_status
from aggregator.machine_clock import utc_now_ms
from aggregator.threads import Pulse, Threads

_EVERY_S = 10.0
# Many tables on slow storage may take minutes.
_BOUND_S = 600.0
log = logging.getLogger(__name__)


class Stalls:
    """Remembers since when each partition of a table has had records without moving, whatever the reason, and when a
    table last had all. Pure.
    """

    def __init__(self) -> None:
        self._complete: dict[str, int] = {}
        self._seen: dict[tuple[str, CentralPartition], tuple[int, float]] = {}

    def timed(self, tables: Sequence[TableStatus], now_s: float, asked_ms: int) -> tuple[TableStatus, ...]:
        """The tables with their `stood_ms` and `complete_ms`.

        Args:
            tables: As they are now; one that cannot be read stands since it was read last.
            now_s: Seconds on a clock that only goes forward.
            asked_ms: When somebody began to look, milliseconds since 1970: what came later may not be in the answer.
        """
        complete = {one.table: asked_ms for one in tables if one.lag_records == 0 and not one.problem}
        self._complete = {
            one.table: self._complete[one.table] for one in tables if one.table in self._complete
        } | complete
        seen: dict[tuple[str, CentralPartition], tuple[int, float]] = {}
        timed = []
        for table in tables:
            began = []
            for at, end in table.end_offsets.items():
                before = self._seen.get((table.table, at))
                offset = before[0] if before and table.problem else table.next_offsets.get(at, 0)
                if offset < end:
                    since_s = before[1] if before and before[0] == offset else now_s
                    seen[table.table, at] = (offset, since_s)
                    began.append(since_s)
            stood_ms = int((now_s - min(began, default=now_s)) * 1000)
            timed.append(replace(table, stood_ms=stood_ms, complete_ms=self._complete.get(table.table)))
        self._seen = seen
        return tuple(timed)


class LakePoller:
    """Looks at the lake's tables at intervals. A hub without a lake has no tables."""

    def __init__(self, config: HubConfig) -> None:
        self.tables: tuple[TableStatus, ...] = ()
        self._config = config
        self._stalls = Stalls()

    def start(self, threads: Threads, over: threading.Event) -> None:
        """Start the thread that looks at the lake's tables, if the hub has a lake.

        Args:
            threads: The threads of the watcher's process.
            over: Ends the thread when it is set.
        """
        if self._config.lake:
            threads.start("lake-poller", partial(self._run, over), stop=over, bound_s=_BOUND_S)

    def _run(self, over: threading.Event, pulse: Pulse) -> None:
        while not over.is_set():
            pulse()
            try:
                asked_ms = utc_now_ms()
                self.tables = self._stalls.timed(lake_status(self._config), time.monotonic(), asked_ms)
            except AggregatorError as error:
                log.debug("the lake is looked at again: %s", error.message)
            over.wait(_EVERY_S)
