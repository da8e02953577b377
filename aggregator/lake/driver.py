"""Runs the lake's cycles until it is stopped or drained. A cycle plans, runs a Spark job and commits, for all tables.

Invariant: all state is in the tables and at central. A driver may therefore die at any point, and two may run: each
drops what the other has committed. A table that is held, or does not answer, stops no other table.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from aggregator.config.lake_model import CURRENT
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, EdgePartition, OffsetRange
from aggregator.errors import AggregatorError, ConfigError, HoldError, RetryError, in_one_line, kind_and_place
from aggregator.kafka.readers.committed_reader import central_partitions, offset_bounds
from aggregator.kafka.readers.ends import PartitionErrors, log_end_offsets
from aggregator.lake.cadence import wait_for_next_cycle
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from aggregator.lake.current_state import CurrentStates
from aggregator.lake.cycle.attempts import CommitTurns
from aggregator.lake.cycle.commit import Commit, discard_outcomes
from aggregator.lake.cycle.job import JobLost, run_jobs
from aggregator.lake.cycle.ranges import StagingOutcome, TableHold, backlog, tasks
from aggregator.lake.cycle.report import CycleReport, TableReport
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.cycle.task import StagingPlan
from aggregator.lake.quality.publication import Published, complete
from aggregator.lake.quality.quarantine import Quarantine
from aggregator.lake.storage.files import out_of_range
from aggregator.lake.table_plan import OffsetBounds, TablePlan, next_offsets, plan_batches, released_spans, table_limits
from aggregator.lake.tables.formats import lake_config, open_tables
from aggregator.lake.tables.port import TableHandle, Tables
from aggregator.lake.tables.storage_errors import storage_errors
from aggregator.lake.upkeep.orphans import ORPHAN_AGE, sweep, sweep_scratch
from aggregator.repeated_warnings import RepeatedWarnings
from aggregator.state.ledger_log import read_ledger
from aggregator.state.names import HubNames
from aggregator.state.releases import Release
from aggregator.state.request_log import read_releases
from aggregator.threads import Pulse, map_concurrently

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aggregator.lake.quality.gate import QualityGate

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LakeBounds:
    """Limits how much one cycle does.

    Attributes:
        parallel: Spark tasks that run at a time; the session keeps two cores free of slots.
        tables: Tables that are opened, and committed, at a time: that is mostly waiting for the store.
        task_records: Offsets of one task.
        cycle_records: Offsets of what is staged together, of one table or of several: a long backlog is committed, and
            a stop heard, in such pieces.
        patience_s: How long a drain goes on while nothing moves.
    """

    parallel: int = 2
    tables: int = 8
    task_records: int = 500_000
    cycle_records: int = 1_000_000
    patience_s: float = 30.0


class LakeDriver:
    """Runs the lake of one hub, cycle by cycle.

    Args:
        config: The hub; `lake:` and `schemas:` must be there.
        spark: A session whose executors reach central, the registry and the lake.
        names: The hub's names at central.
        bounds: How much one cycle takes on.
        clock: Seconds since 1970; ages of staged files are judged by it.
        flows: Edge partitions that the hub replicates; by default the keys of its ledger.
        releases: Releases that let ranges pass the gates; by default those of the requests topic.
        publish: Takes the report of every cycle.

    Raises:
        ConfigError: no lake, or no central registry.
    """

    def __init__(
        self,
        config: HubConfig,
        spark: "SparkSession",
        names: HubNames,
        *,
        bounds: LakeBounds | None = None,
        clock: Callable[[], float] = time.time,
        flows: Callable[[], Mapping[EdgePartition, object]] | None = None,
        releases: Callable[[], Iterable[Release]] | None = None,
        publish: Callable[[CycleReport], None] = lambda _: None,
    ) -> None:
        if config.schemas is None:
            raise ConfigError("the lake needs central's registry", hint="add `schemas: directory:<path>`")
        self._config = config
        self._registry = config.schemas
        self._lake = lake_config(config)
        self._tables = open_tables(config)
        self._spark = spark
        self._bounds = bounds or LakeBounds()
        self._clock = clock
        self._flows = flows or (lambda: read_ledger(config.central, names))
        self._releases = releases or (lambda: read_releases(config.central, names))
        self._publish = publish
        self._states = CurrentStates(self._lake, self._tables)
        self._turns = CommitTurns()
        self._swept: dict[str, float] = {}
        self._gates = _gates(config, spark, self._tables, clock)
        self._without_pending: set[str] = set()
        self._lost: frozenset[str] = frozenset()  # tables whose job Spark lost: each is staged alone for now
        self._repeated = RepeatedWarnings()

    def cycle(self, *, force: bool = False, stop: threading.Event | None = None) -> CycleReport:
        """Bring every table up to what is committed now, within the bounds.

        Args:
            force: Commit positions over markers, too, as a drain needs them.
            stop: Once it is set, no further tables are staged.

        Raises:
            Unreachable: central does not answer when asked for the flows.
        """
        limits = self._limits(lake_sources(self._config, self._flows()))
        planned = self._side_by_side(
            lambda name: self._run_or_report(name, lambda: self._sweep_and_plan(name, limits[name])), limits
        )
        done = {one.table: one for one in planned if isinstance(one, TableReport)}
        plans = [one for one in planned if isinstance(one, TablePlan)]
        for found in plan_batches(plans, self._bounds.cycle_records, apart=self._lost):
            is_over = stop is not None and stop.is_set()
            done |= {one.table: one for one in ([] if is_over else self._stage_and_commit(found, force=force))}
            done |= {one.name: one.idle() for one in found if is_over}
        report = CycleReport(tuple(done[name] for name in sorted(done)))
        for line in self._repeated.due(report.troubles, time.monotonic()).values():
            log.warning("%s", line)
        return report

    def run(self, stop: threading.Event, pulse: Pulse = lambda: None) -> None:
        """Cycle until `stop` is set: at once while there is a backlog, else by the commit interval or its records.

        Args:
            stop: Ends it.
            pulse: Called with every cycle.

        Raises:
            FatalError: the ledger is damaged.
        """
        while not stop.is_set():
            pulse()
            report = CycleReport()
            try:
                report = self.cycle(stop=stop)
                self._publish(report)
                self._states.refresh(report)
            except RetryError as error:
                log.warning("the lake waits: %s", in_one_line(str(error)))
            if not report.has_backlog:
                wait_for_next_cycle(self._config.central, self._lake, report, stop)

    def drain(
        self, until: Mapping[tuple[str, int], int] | None = None, *, stop: threading.Event | None = None
    ) -> CycleReport:
        """Cycle until everything before `until` is committed or held.

        Args:
            until: End offset by central topic and partition; None for everything that is in central's log now. An open
                transaction is waited for: a commit returns before its marker makes the records visible.
            stop: Ends the drain early.

        Returns:
            The sums of all cycles, with the positions and the held ranges of the last.

        Raises:
            RetryError: what did not answer, once nothing has moved for the patience of the bounds.
        """
        done: dict[str, TableReport] = {}
        moved_at = time.monotonic()
        wanted = self._log_ends() if until is None else until
        while True:
            report = self.cycle(force=True, stop=stop)
            self._publish(report)
            moved = any(table.version is not None for table in report.tables)
            done = {table.table: table.added_to(done.get(table.table)) for table in report.tables}
            if (stop and stop.is_set()) or not any(table.short_of(wanted) for table in report.tables):
                self._states.refresh(report, force=True)
                return CycleReport(tuple(done.values()))
            if moved:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self._bounds.patience_s:
                raise _stuck(report)
            else:
                (stop or threading.Event()).wait(0.5)

    def _log_ends(self) -> Mapping[tuple[str, int], int]:
        topics = frozenset().union(*lake_sources(self._config, self._flows()).values())
        partitions = central_partitions(self._config.central, topics)
        return log_end_offsets(self._config.central, [(one.topic, one.partition) for one in partitions])

    def _limits(self, sources: Mapping[str, frozenset[str]]) -> dict[str, OffsetBounds | RetryError]:
        """What each table's central partitions hold, or central's error; all tables are asked for at once."""
        undescribed: dict[str, str] = {}
        refused: PartitionErrors = {}
        try:
            found = central_partitions(self._config.central, frozenset().union(*sources.values()), undescribed)
            bounds = offset_bounds(self._config.central, found, refused)
        except RetryError as error:
            return dict.fromkeys(sorted(sources), error)
        return table_limits(sources, bounds, undescribed | {topic: why for (topic, _), why in refused.items()})

    def _side_by_side(self, work: Callable[[T], R], items: Iterable[T]) -> list[R]:
        """Work on the items in parallel, and return the results in their order."""
        todo = dict(enumerate(items))
        return [*map_concurrently(lambda number: work(todo[number]), todo, most=self._bounds.tables).values()]

    @staticmethod
    def _run_or_report(name: str, work: Callable[[], R]) -> R | TableReport:
        """The result of the work, or a report of the error that stopped it."""
        try:
            with storage_errors(f"table {name}: its files", hint="is the storage up, and is there space?"):
                return work()
        except HoldError as error:
            return TableReport(name, held=(TableHold(None, str(error)),))
        except RetryError as error:
            return TableReport(name, failed=error)
        except AggregatorError:  # such an error ends the lake
            raise
        except Exception as error:  # noqa: BLE001 - metadata that somebody damaged raises anything, and others wait
            hint = "is its metadata whole? else report this line"
            return TableReport(name, failed=RetryError(f"table {name}: {kind_and_place(error)}", hint=hint))

    def _sweep_and_plan(self, name: str, limits: OffsetBounds | RetryError) -> TablePlan | TableReport:
        """Remove what is left over, and return the work to do for a table, or a report if there is none."""
        if isinstance(limits, RetryError):
            raise limits
        handle = self._tables.open(name)
        self._sweep(name)
        positions = handle.positions(list(limits)) if handle else {}
        decided = self._decided(name, positions, limits)
        if gate := None if decided else self._gates.get(name):
            gate.repair_verdicts(handle, positions)
        released = self._released(name, positions, limits) if gate else {}
        bounds = decided or released_spans(released, limits) or limits
        todo = backlog(positions, bounds, records=self._bounds.cycle_records)
        release = next(iter(released.values()), None)
        plan = TablePlan(name, handle, positions, limits, todo, is_decided=bool(decided), release=release)
        still_held = gate.still_held(todo.spans) if gate and not release else ()
        if still_held or not todo.spans or self._turns.is_reserved_by_other(self._tables.folder / name):
            return plan.idle(still_held)
        self._turns.remove_expired(self._tables.folder / name)
        return plan

    def _stage_and_commit(self, plans: Sequence[TablePlan], *, force: bool) -> list[TableReport]:
        """Stage all plans in one Spark job, then commit. Gated tables commit one by one: each gate runs a Spark job."""
        tasks_of = [(plan, self._run_or_report(plan.name, partial(self._staging_plan, plan))) for plan in plans]
        reports = [task for _, task in tasks_of if isinstance(task, TableReport)]
        fit = [(plan, task) for plan, task in tasks_of if isinstance(task, StagingPlan)]
        outcomes = run_jobs(self._spark, [task for _, task in fit], parallel=self._bounds.parallel) if fit else []
        both = [(plan, found) for (plan, _), found in zip(fit, outcomes, strict=True)]
        now_lost = {plan.name for plan, found in both if isinstance(found, JobLost)}
        self._lost = self._lost - {plan.name for plan, _ in both} | now_lost
        reports += [TableReport(plan.name, failed=found) for plan, found in both if isinstance(found, RetryError)]
        staged = [(plan, found) for plan, found in both if not isinstance(found, RetryError)]
        changed = self._changed([plan for plan, _ in staged])

        def publish(one: tuple[TablePlan, list[StagingOutcome]]) -> TableReport:
            plan, found = one
            return self._run_or_report(plan.name, lambda: self._commit_or_discard(plan, found, changed, force=force))

        gated = [one for one in staged if one[0].name in self._gates]
        reports += self._side_by_side(publish, [one for one in staged if one[0].name not in self._gates])
        return reports + [publish(one) for one in gated]

    def _changed(self, plans: Sequence[TablePlan]) -> Mapping[str, str]:
        """Topics recreated since planning, or not described by central, with the reason: old ids may have been read."""
        names = frozenset().union(*(plan.topics for plan in plans))
        undescribed: dict[str, str] = {}
        try:
            found = central_partitions(self._config.central, names, undescribed)
        except RetryError as error:
            return dict.fromkeys(names, str(error))
        differing = {one for plan in plans for one in plan.limits}.symmetric_difference(found)
        return {one.topic: "it changed while it was read" for one in differing} | undescribed

    def _commit_or_discard(
        self, plan: TablePlan, outcomes: list[StagingOutcome], changed: Mapping[str, str], *, force: bool
    ) -> TableReport:
        try:
            published = self._commit_staged(plan, outcomes, changed, force=force)
        except Exception:  # may be repeated: files that were never sent must not pile up
            discard_outcomes(self._tables.folder / plan.name, outcomes)
            raise
        files = published.result.files
        if outside := sum(map(out_of_range, files)):
            rows, says = sum(file.rows for file in files), "new records have a number out of range"
            log.warning("table %s: %d of %d %s, see %s", plan.name, outside, rows, says, OUT_OF_RANGE_COLUMN)
        return plan.report(published)

    def _commit_staged(
        self, plan: TablePlan, outcomes: list[StagingOutcome], changed: Mapping[str, str], *, force: bool
    ) -> Published:
        for topic in sorted(plan.topics & changed.keys()):
            raise RetryError(f"table {plan.name}: central {topic}: {changed[topic]}", hint="the next cycle reads")
        if plan.is_decided:
            return complete(self._quarantine(plan.name), plan.handle, outcomes, now_s=self._clock())
        if gate := self._gates.get(plan.name):
            return gate.publish(plan.handle, outcomes, force=force, release=plan.release)
        return self._commit(plan.name, plan.handle, outcomes, force=force)

    def _decided(
        self, name: str, positions: Mapping[CentralPartition, int], limits: OffsetBounds
    ) -> Mapping[CentralPartition, OffsetRange]:
        """Ranges that the quarantine has committed and the table has not. Only tables with a gate can have them."""
        if name not in self._gates and name in self._without_pending:
            return {}
        pending = self._quarantine(name).pending(positions, limits)
        if not pending:
            self._without_pending.add(name)
        return pending

    def _released(
        self, name: str, positions: Mapping[CentralPartition, int], limits: OffsetBounds
    ) -> Mapping[CentralPartition, Release]:
        """The ranges that the table's newest release lets pass, by partition; a cycle publishes only these."""
        if all(positions.get(one, start) >= end for one, (start, end) in limits.items()):
            return {}
        starts = next_offsets(positions, limits)
        found = [
            one
            for one in self._releases()
            if one.table == name and one.offsets.start <= starts.get(one.partition, -1) < one.offsets.end
        ]
        newest = max((one.at_ms for one in found), default=0)
        return {one.partition: one for one in found if one.at_ms == newest}

    def _quarantine(self, name: str) -> Quarantine:
        return Quarantine(self._tables, self._tables.folder, name)

    def _staging_plan(self, plan: TablePlan) -> StagingPlan:
        name, handle = plan.name, plan.handle
        return StagingPlan(
            name,
            self._tables.folder / name,
            self._config.central,
            self._registry,
            self._tables,
            handle.schema().serialize().to_pybytes() if handle else None,
            tuple(tasks(plan.todo.spans, parallel=self._bounds.parallel, records=self._bounds.task_records)),
            partition_columns=handle.partition_columns()
            if handle
            else self._tables.partition_columns_by_table.get(name, ()),
            registry_client=self._config.schemas_client,
        )

    def _commit(
        self, name: str, handle: TableHandle | None, outcomes: list[StagingOutcome], *, force: bool
    ) -> Published:
        begun = time.monotonic()
        result = Commit(self._tables, name, outcomes, force).run(handle)
        return Published(result, commit_s=time.monotonic() - begun)

    def _sweep(self, name: str) -> None:
        if self._clock() < self._swept.get(name, 0.0) + ORPHAN_AGE.total_seconds():
            return
        self._swept[name] = self._clock()
        for table in (name, self._quarantine(name).name, f"{name}{CURRENT}"):
            sweep(self._tables, table, now_s=self._clock())
        sweep_scratch(self._tables.folder, now_s=self._clock())


def _gates(
    config: HubConfig, spark: "SparkSession", tables: Tables, clock: Callable[[], float]
) -> "Mapping[str, QualityGate]":
    """The gates of the tables that have suites; a lake without any imports nothing for them."""
    if not any(table.quality for table in lake_config(config).tables.values()):
        return {}
    from aggregator.lake.quality.gate import open_gates  # noqa: PLC0415 - Great Expectations takes three seconds

    return open_gates(config, spark, tables, clock=clock)


def _stuck(report: CycleReport) -> RetryError:
    for table in report.tables:
        if table.failed is not None:
            return table.failed
    return RetryError("the lake does not move", hint="look at the log for what it waits for")
