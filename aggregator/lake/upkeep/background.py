"""Compacts, vacuums and describes tables between their commits, in the process that runs the lake.

Invariant: upkeep takes a tenth of the time at most, and visits a table once a minute at most. Upkeep and commits
compete as any two writers do: the later one tries again from a fresh read. Nothing is rewritten while the lake is
behind, or while another job has asked for a turn. A table that cannot be kept up is reported, and hides no other table.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from aggregator.config.lake_model import CURRENT, QUARANTINE, UpkeepConfig
from aggregator.errors import AggregatorError, kind_and_place
from aggregator.lake.cycle.attempts import CommitTurns
from aggregator.lake.cycle.report import CycleReport
from aggregator.lake.tables.port import CommitConflict, Description, Tables
from aggregator.lake.tables.storage_errors import storage_errors
from aggregator.lake.upkeep.compaction import RATIO, compact
from aggregator.repeated_warnings import RepeatedWarnings
from aggregator.state.lake_upkeep import TableUpkeep
from aggregator.threads import Pulse

_SHARE = 10  # one part in so many of the time is work
_EVERY_S = 60.0
_VACUUM_EVERY = timedelta(days=1)
_DESCRIBE_EVERY_S = 600.0
_PULSE_S = 5.0
log = logging.getLogger(__name__)


class BackgroundUpkeep:
    """Compacts and vacuums the tables that the lake's cycles report.

    Args:
        wanted: What is to be done.
        tables: The format.
        cluster_by: Columns in whose order a table's rows are put.
        describe: What is to be said of a table that these central topics feed; None: nothing.
        publish: Takes what was done to a table, whenever that changes.
        known: What was done before this process, by table.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        wanted: UpkeepConfig,
        tables: Tables,
        *,
        cluster_by: Callable[[str], Sequence[str]] = lambda _table: (),
        describe: Callable[[Collection[str]], Description] | None = None,
        publish: Callable[[str, TableUpkeep], None] = lambda _table, _done: None,
        known: Callable[[], Mapping[str, TableUpkeep]] = dict,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._wanted = wanted
        self._tables = tables
        self._cluster_by = cluster_by
        self._describe = describe
        self._described: dict[str, float] = {}  # when each table was looked at
        self._publish = publish
        self._known = known
        self._clock = clock
        self._done: dict[str, TableUpkeep] = {}
        self._turns = CommitTurns()
        self._repeated = RepeatedWarnings()
        self._report = CycleReport()

    def take(self, report: CycleReport) -> None:
        """Take the report of the lake's newest cycle: which tables there are, and which are behind."""
        self._report = report

    def run(self, stop: threading.Event, pulse: Pulse = lambda: None) -> None:
        """Keep up one table after another until `stop` is set.

        Args:
            stop: Ends it.
            pulse: Called with every table, and while it rests.
        """
        _rest(stop, pulse, _EVERY_S)
        self._done = dict(self._known())
        while not stop.is_set():
            round_began = time.monotonic()
            names = self.due()
            for name in names:
                began = time.monotonic()
                done = self.keep_up(name)
                if done is not None and not stop.is_set():
                    self._publish(name, done)
                _rest(stop, pulse, (time.monotonic() - began) * (_SHARE - 1))
                if stop.is_set():
                    return
            self._warn(names)
            _rest(stop, pulse, round_began + _EVERY_S - time.monotonic())

    def due(self) -> list[str]:
        """The tables, what their gates diverted, and their current states.

        None while the lake is behind, because its commits come first.
        """
        if self._report.has_backlog:
            return []
        names = [one.table for one in self._report.tables if one.failed is None]
        return [f"{name}{suffix}" for name in names for suffix in ("", QUARANTINE, CURRENT)]

    def keep_up(self, name: str) -> TableUpkeep | None:
        """Rewrite some of a table's files, as many as a large one holds, and forget its old versions once a day.

        Args:
            name: The table's.

        Returns:
            What has been done to it so far; None where that is no news.
        """
        before = self._done.get(name, TableUpkeep())
        done, problems = before, []  # a failure of one step does not prevent the next
        for step in (
            self._compacted,
            self._vacuumed,
            self._with_description,
        ):
            try:
                with storage_errors(f"table {name}: its files", parquet=True):
                    done = step(name, done)
            except AggregatorError as error:
                problems.append(str(error))
            except Exception as error:  # noqa: BLE001 - metadata that is damaged raises anything, and another table waits
                problems.append(f"table {name}: its metadata or files are damaged ({kind_and_place(error)})")
        done = replace(done, problem=next(iter(problems), ""))
        self._done[name] = done
        return None if done == before else done

    def _compacted(self, name: str, done: TableUpkeep) -> TableUpkeep:
        folder = self._tables.folder / name
        if not self._wanted.compact or self._turns.is_reserved_by_other(folder):
            return done
        self._turns.remove_expired(folder)
        try:
            found = compact(
                self._tables,
                folder,
                name,
                cluster_by=self._cluster_by(name),
                fewest=RATIO,
                most=1,
            )
        except CommitConflict:  # others commit all the time, so the table does not stay as it is
            return done
        if not found.before:
            return done
        rewritten, written = done.rewritten + found.before, done.written + found.after
        return replace(done, compacted_ms=self._now_ms(), rewritten=rewritten, written=written)

    def _vacuumed(self, name: str, done: TableUpkeep) -> TableUpkeep:
        age_ms = self._now_ms() - (done.vacuumed_ms or 0)
        is_due = not 0 <= age_ms < _VACUUM_EVERY / timedelta(milliseconds=1)
        folder = self._tables.folder / name
        if not (self._wanted.vacuum and is_due) or self._turns.is_reserved_by_other(folder):
            return done
        self._turns.remove_expired(folder)
        handle = self._tables.open(name)
        if handle is None:
            return done
        try:
            removed = handle.vacuum(self._wanted.keep, now_s=self._clock())
        except CommitConflict:
            return done
        return replace(done, vacuumed_ms=self._now_ms(), removed=done.removed + removed)

    def _with_description(self, name: str, done: TableUpkeep) -> TableUpkeep:
        base, now_s = name.removesuffix(CURRENT), time.monotonic()
        if self._describe is None or now_s - self._described.get(name, float("-inf")) < _DESCRIBE_EVERY_S:
            return done
        topics = {at.topic for one in self._report.tables if one.table == base for at in one.next_offsets}
        handle = self._tables.open(name) if topics else None
        if handle is None:
            return done
        with suppress(CommitConflict):  # the next round says the rest
            handle.describe(self._describe(topics))
            self._described[name] = now_s
        return done

    def _warn(self, names: Iterable[str]) -> None:
        found = {name: self._done[name].problem for name in names if name in self._done}
        problems = {name: f"table {name} is not kept up: {why}" for name, why in found.items() if why}
        for line in self._repeated.due(problems, time.monotonic()).values():
            log.warning("%s", line)

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)


def _rest(stop: threading.Event, pulse: Pulse, seconds: float) -> None:
    """Wait so long, with a pulse every few seconds."""
    until = time.monotonic() + seconds
    pulse()
    while not stop.wait(min(_PULSE_S, max(0.0, until - time.monotonic()))) and time.monotonic() < until:
        pulse()
