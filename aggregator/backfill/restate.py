"""A restate: replaces rows of a lake table by the same records under the present policy, in one commit.

Invariant: new rows pass the table's gate as those of any commit do, and failing rows go where the gate says. A table of
current states is derived anew from the result. Every step may be done twice, and the table's commit happens once. A
table that lags behind the plan is refused, because late rows would be added to the new ones. The topics of a restate
must hold a row, or a notice that there is none, for each record that was read. Otherwise they are refused, because rows
would stay that the policy changes.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS, Affected
from aggregator.backfill.backfill_state import Backfill
from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.ranges import split
from aggregator.backfill.replacement import ATTEMPTS, PAUSES, Admission, AdmitAll, NewRows, Replacement
from aggregator.backfill.store import note_removed
from aggregator.backfill.target import target_config
from aggregator.config.model import HubConfig
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import FatalError, HoldError, RetryError
from aggregator.kafka.readers.committed_reader import central_partitions
from aggregator.kafka.readers.log import decided_ranges
from aggregator.lake.current_state import CurrentState
from aggregator.lake.cycle.attempts import Done, commit_with_retries
from aggregator.lake.cycle.job import run_job
from aggregator.lake.cycle.ranges import Span, StagingOutcome, tasks
from aggregator.lake.cycle.sources import lake_sources
from aggregator.lake.cycle.task import StagingPlan
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.formats import lake_config, open_tables
from aggregator.lake.tables.port import TableHandle, Tables
from aggregator.state.names import HubNames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from aggregator.lake.quality.gate import QualityGate

_PATIENCE_S = 60.0
# So many ranges of a flow are named in a commit. The others are in the plan, under its id.
_SHOWN = 100
_PARALLEL, _TASK_RECORDS = 2, 500_000


@dataclass(frozen=True, slots=True)
class Restated:
    """Describes what a restate did to one table.

    Attributes:
        table: The table's name.
        version: Version of the commit; None: there was nothing to replace, or an earlier run had replaced it.
        rows: Rows that were replaced or removed.
        left: Rows that stay: their records were not read, or are tombstones that nothing replaces.
        keyless: Rows that stay without their key, each origin once: nobody knows their key under the policy.
    """

    table: str
    version: int | None = None
    rows: int = 0
    left: int = 0
    keyless: int = 0


def restate_tables(config: HubConfig, backfill: Backfill, spark: "SparkSession") -> list[Restated]:
    """Replace the rows of a backfill in every table that they are in.

    Rows of records that it did not read stay, and so do tombstones.

    Args:
        config: The hub.
        backfill: A backfill with `Mode.RESTATE` whose records are all at central.
        spark: Where to decode.

    Raises:
        FatalError: its topics do not hold all that it read.
        HoldError: the new rows do not fit the table's columns.
        RetryError: the table lags behind, or storage, registry or central does not answer.
    """
    plan = backfill.plan
    where = target_config(config, plan.mode, plan.into)
    again = [replace(one, segments=split(one.segments, backfill.passed(one))) for one in plan.writes]
    flows = [one.source for one in again]
    live = lake_sources(config, flows)
    read = {one.central: Counter[str]() for one in again}
    for one in again:
        read[one.central].update(backfill.counts_of(one))
    work = _Work(config, plan, again, dict(backfill.removed), backfill.policies, read)
    return [
        _Table(work, name, topics, live[name]).restate(spark)
        for name, topics in sorted(lake_sources(where, flows).items())
    ]


@dataclass(frozen=True)
class _Work:
    """Holds what the tables of one restate share.

    Attributes:
        removed: Removed rows by flow; every table adds its own.
        read: Numbers of delivered, dead and suppressed records that went into each topic.
    """

    config: HubConfig
    plan: Plan
    again: Sequence[PartitionPlan]
    removed: dict[str, int]
    policies: Mapping[str, str]
    read: Mapping[str, Mapping[str, int]]


class _Rules:
    """The gate of a table, for rows that came by a restate's own topics."""

    def __init__(self, gate: "QualityGate", limits: Mapping[CentralPartition, OffsetRange]) -> None:
        self._gate = gate
        self._limits = limits

    def audit_replacement(self, handle: TableHandle, outcomes: Sequence[StagingOutcome]) -> list[StagingOutcome]:
        try:
            return self._gate.audit_replacement(handle, outcomes, self._limits)
        except HoldError as error:
            hint = "mend the suite, then resume; or mend the policy, cancel this backfill and run the same again"
            raise HoldError(error.lines, hint=hint) from None

    def record_commit(self, version: int, outcomes: Sequence[StagingOutcome]) -> None:
        self._gate.record_commit(version, outcomes)


def records_with_rows(folder: Folder, outcomes: Iterable[StagingOutcome]) -> int:
    """Count the records with staged rows; a tombstone counts once, although it has a row for each live key version."""
    rows = [folder.rows(file.path, list(ORIGIN_COLUMNS)) for outcome in outcomes for file in outcome.files]
    return pa.concat_tables(rows).group_by(list(ORIGIN_COLUMNS)).aggregate([]).num_rows if rows else 0


def require_whole(table: str, id_: str, *, came: int, notices: int, read: Mapping[str, int]) -> None:
    """Refuse what the topics of a restate hold, if it is less than it read.

    Args:
        table: The table's name.
        id_: The backfill's id.
        came: Number of records of these topics for which rows were staged.
        notices: Number of records for which a notice was staged.
        read: Numbers of delivered, dead and suppressed records.

    Raises:
        FatalError: somebody deleted records or the topic, or a version began it that told of none that it left out.
    """
    without = read["dead"] + read["suppressed"]
    if notices < without or came < read["delivered"]:
        raise FatalError(
            f"table {table}: restate {id_} read {read['delivered']} records with rows and {without} without,"
            f" and its topics tell of {came} and {notices}: an earlier version began it, or records of them were"
            " deleted",
            hint=f"aggregator backfill cancel {id_}, then run the same again: it begins anew; the table is unchanged",
        )


def decoding(  # noqa: PLR0917 - what a task needs
    config: HubConfig, tables: Tables, name: str, handle: TableHandle, spans: list[Span], scratch: Folder
) -> StagingPlan:
    """The plan that stages new rows outside of their table, under its columns and divided as it is."""
    assert config.schemas is not None
    return StagingPlan(
        name,
        scratch,
        config.central,
        config.schemas,
        tables,
        handle.schema().serialize().to_pybytes(),
        tuple(tasks(spans, parallel=_PARALLEL, records=_TASK_RECORDS)),
        handle.partition_columns(),
        apart=True,
        registry_client=config.schemas_client,
    )


class _Table:
    def __init__(self, work: _Work, name: str, topics: frozenset[str], live: frozenset[str]) -> None:
        self._config = work.config
        self._plan = work.plan
        self._again = work.again
        self._removed = work.removed
        self._policies = work.policies
        self._read = sum((Counter(work.read[topic]) for topic in topics), Counter[str]())
        self._name = name
        self._tables = open_tables(work.config)
        self._settings = lake_config(work.config).tables.get(name)
        self._mark = work.plan.mark
        self._new = self._ends(topics)
        self._live = self._ends(live)

    def _ends(self, topics: frozenset[str]) -> dict[CentralPartition, OffsetRange]:
        """Everything that is in these central topics now, once open transactions are decided."""
        found = central_partitions(self._config.central, topics)
        ranges = decided_ranges(self._config.central, [(one.topic, one.partition) for one in found])
        return {one: ranges[one.topic, one.partition] for one in found}

    def restate(self, spark: "SparkSession") -> Restated:
        handle = self._caught_up()
        if handle is None:
            return Restated(self._name)
        replacement = Replacement(
            self._tables,
            self._name,
            Affected(self._again),
            mark=self._mark,
            admission=self._admission(spark),
        )
        done = None
        if not replacement.is_done(handle) and replacement.hits(handle):
            scratch = self._tables.folder / f".{self._plan.into}-{self._name}"
            try:
                outcomes = self._decoded(spark, handle, scratch)
                notices = sum(file.rows for outcome in outcomes for file in outcome.left_out)
                came = records_with_rows(scratch, outcomes)
                require_whole(self._name, self._plan.id, came=came, notices=notices, read=self._read)
                come = NewRows(outcomes, scratch, self._positions(), self._note())
                done = replacement.commit(come, self._note_removed)
            finally:
                scratch.clear()
        if self._settings is not None and self._settings.current_state:
            self._refresh()
        return Restated(self._name, *done) if done else Restated(self._name)

    def _caught_up(self) -> TableHandle | None:
        """The table, once it has everything that central had when the restate began."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            handle = self._tables.open(self._name)
            positions = handle.positions(self._live) if handle else {}
            late = [one for one, (start, end) in self._live.items() if positions.get(one, start) < end]
            if handle is None or not late:
                return handle
            if time.monotonic() > deadline:
                raise RetryError(
                    f"table {self._name} has not come as far as central, by {len(late)} partitions",
                    hint="run the hub, or `aggregator run --only lake --drain`, then resume this restate",
                )
            time.sleep(1)

    def _admission(self, spark: "SparkSession") -> Admission:
        if self._settings is None or not self._settings.quality:
            return AdmitAll()
        from aggregator.lake.quality.gate import open_gates  # noqa: PLC0415 - Great Expectations takes three seconds

        return _Rules(open_gates(self._config, spark, self._tables)[self._name], self._new)

    def _decoded(self, spark: "SparkSession", handle: TableHandle, scratch: Folder) -> list[StagingOutcome]:
        """The new rows, in files outside of the table."""
        spans = [Span(one, offsets) for one, offsets in self._new.items() if len(offsets)]
        if not spans or self._config.schemas is None:
            return []
        plan = decoding(self._config, self._tables, self._name, handle, spans, scratch)
        outcomes = run_job(spark, plan)
        for one in (reached for outcome in outcomes for reached in outcome.reached if reached.held):
            where = f"table {self._name}: {one.span.partition.place} at offset {one.next_offset}"
            raise HoldError(f"{where}: {one.held}", hint="mend it, then resume this restate")
        return outcomes

    def _positions(self) -> dict[CentralPartition, int]:
        return {one: end for one, (start, end) in self._new.items() if end > start}

    def _note_removed(self, removed: Mapping[str, int]) -> None:
        """Record the removed rows before the commit, so that nobody misses these rows after it."""
        self._removed |= removed
        note_removed(self._config.central, HubNames(self._config.hub), self._plan.id, self._removed)

    def _refresh(self) -> None:
        """Work the table's current state out anew; a table that was restated before has the mark in both."""
        key = self._settings.key if self._settings is not None else ()
        state = CurrentState(self._tables, self._tables.folder, self._name, key)
        partitions = [*self._live, self._mark]
        commit_with_retries(
            state.table, lambda: Done(state.refresh(partitions, force=True)), most=ATTEMPTS, pauses=PAUSES
        )

    def _note(self) -> dict[str, str]:
        """The commit's description of itself: its backfill, policies and offsets."""
        ranges = {str(one.source): [[at, *offsets] for at, offsets in one.segments[:_SHOWN]] for one in self._again}
        topics = {f"{one.source.edge}/{one.source.topic}" for one in self._plan.writes}
        used = {topic: self._policies[topic] for topic in topics if topic in self._policies}
        return {
            "hub.restate": self._plan.id,
            "hub.restate.policy": json.dumps(used, sort_keys=True),
            "hub.restate.ranges": json.dumps(ranges, sort_keys=True),
        }
