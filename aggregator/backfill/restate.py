"""A restate: rows of a lake table replaced by the same records under the present policy, in one commit.

Invariant: only origins that the table has are replaced, each by its own record or, where the policy lets nothing pass
by now, by nothing; all others are as before. The commit carries the position of the restate's own central topics, so
it happens once. Refuses a table that lags behind what the plan speaks of: late rows would come on top.
"""

import json
import logging
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from aggregator.backfill.affected import ORIGIN_COLUMNS, Affected, Numbers
from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.ranges import split
from aggregator.backfill.store import Backfill, note_removed
from aggregator.backfill.target import target_config
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import Failed, HoldError, RetryError
from aggregator.kafka.committed import CentralPartition, central_partitions
from aggregator.kafka.log import decided_ranges
from aggregator.kafka.names import HubNames
from aggregator.lake.columns import conformed
from aggregator.lake.commit import fitted
from aggregator.lake.files import Stage, StagedFile, remove
from aggregator.lake.job import run_job
from aggregator.lake.ranges import Outcome, Span, tasks
from aggregator.lake.sources import lake_sources
from aggregator.lake.tables.formats import lake_config, open_tables
from aggregator.lake.tables.port import CommitConflict, LiveFile, TableHandle
from aggregator.lake.task import StagingTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ATTEMPTS = 20
_PATIENCE_S = 60.0
_BATCH_ROWS = 16_384
# Ranges of a flow that a commit names; more are in the plan, under its id.
_SHOWN = 100
_PARALLEL, _TASK_RECORDS = 2, 500_000
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Restated:
    """What became of one table.

    Attributes:
        table: Its name.
        version: Of the commit; None: there was nothing to replace, or it was done before.
        rows: Rows that were replaced or removed.
    """

    table: str
    version: int | None = None
    rows: int = 0


def refuse_guarded(config: HubConfig, tables: Iterable[str]) -> None:
    """Refuse tables that a restate would pass by.

    Raises:
        Failed: a table has quality suites, or a table of current states beside it.
    """
    for name in tables:
        settings = lake_config(config).tables.get(name)
        if settings is not None and (settings.quality or settings.current_state):
            raise Failed(
                f"table {name} has quality suites or a table of current states, and a restate passes them by",
                hint="make a new generation instead: --into v2",
            )


def restate_tables(
    config: HubConfig, backfill: Backfill, spark: "SparkSession", policies: Mapping[str, str]
) -> list[Restated]:
    """Replace the rows of a backfill in every table that they are in; those that it could not read again stay.

    Args:
        config: The hub.
        backfill: With `Mode.RESTATE`, and all of it at central.
        spark: Where to decode.
        policies: Hash of the present policy, by edge topic.

    Raises:
        HoldError: the new rows do not fit the table's columns.
        RetryError: the table lags behind, or storage, registry or central does not answer.
    """
    plan = backfill.plan
    where = target_config(config, plan.mode, plan.into)
    again = [replace(one, segments=split(one.segments, backfill.passed(one))) for one in plan.writes]
    flows = [one.source for one in again]
    live = lake_sources(config, flows)
    work = _Work(config, plan, again, dict(backfill.removed))
    return [
        _Table(work, name, topics, live[name]).restate(spark, policies)
        for name, topics in sorted(lake_sources(where, flows).items())
    ]


@dataclass(frozen=True)
class _Work:
    """What the tables of one restate share; `removed` grows with each."""

    config: HubConfig
    plan: Plan
    again: Sequence[PartitionPlan]
    removed: dict[str, int]


class _Table:
    def __init__(self, work: _Work, name: str, topics: frozenset[str], live: frozenset[str]) -> None:
        self._config = work.config
        self._plan = work.plan
        self._again = work.again
        self._removed = work.removed
        self._name = name
        self._tables = open_tables(work.config)
        self._folder = lake_config(work.config).path / name
        self._scratch = lake_config(work.config).path / f".{work.plan.into}-{name}"
        self._affected = Affected(work.again)
        self._new = self._ends(topics)
        self._live = self._ends(live)

    def _ends(self, topics: frozenset[str]) -> dict[CentralPartition, OffsetRange]:
        """Everything that is in these central topics now, once open transactions are decided."""
        found = central_partitions(self._config.central, topics)
        ranges = decided_ranges(self._config.central, [(one.topic, one.partition) for one in found])
        return {one: ranges[one.topic, one.partition] for one in found}

    def restate(self, spark: "SparkSession", policies: Mapping[str, str]) -> Restated:
        handle = self._caught_up()
        if handle is None or self._is_done(handle):
            return Restated(self._name)
        try:
            outcomes = self._decoded(spark, handle)
            for attempt in range(_ATTEMPTS):
                time.sleep(0.1 * attempt)
                try:
                    done = self._attempt(outcomes, policies)
                except CommitConflict as conflict:
                    log.info("%s", conflict.message)
                else:
                    if done is not None:
                        return done
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)
        raise CommitConflict(f"table {self._name}: other writers were faster {_ATTEMPTS} times", hint="resume later")

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

    def _is_done(self, handle: TableHandle) -> bool:
        positions = handle.positions(self._new)
        return all(positions.get(one, start) >= end for one, (start, end) in self._new.items())

    def _decoded(self, spark: "SparkSession", handle: TableHandle) -> list[Outcome]:
        """The new rows, in files outside of the table."""
        spans = [Span(one, offsets) for one, offsets in self._new.items() if len(offsets)]
        if not spans or self._config.schemas is None:
            return []
        task = StagingTask(
            self._name,
            self._scratch,
            self._config.central,
            self._config.schemas,
            self._tables,
            handle.schema().serialize().to_pybytes(),
            tuple(tasks(spans, parallel=_PARALLEL, records=_TASK_RECORDS)),
            registry_client=self._config.schemas_client,
        )
        outcomes = run_job(spark, task)
        for one in (reached for outcome in outcomes for reached in outcome.reached if reached.held):
            raise HoldError(f"table {self._name}: {one.held}", hint="mend it, then resume this restate")
        return outcomes

    def _attempt(self, outcomes: Sequence[Outcome], policies: Mapping[str, str]) -> Restated | None:
        """Rewrite and commit from one handle; None when the table was widened and the next one must be opened."""
        handle = self._tables.open(self._name)
        assert handle is not None
        if self._is_done(handle):
            return Restated(self._name)
        schema = handle.schema()
        wider, _, held = fitted(schema, outcomes, self._tables.promotes)
        if held:
            raise HoldError(f"table {self._name}: {held[0].reason}", hint="make a new generation instead: --into v2")
        if wider != schema:
            handle.widen(wider)
            return None
        replaced, had = self._hit(handle)
        stage = Stage(self._folder, schema, promotes=self._tables.promotes, divided_by=handle.divided_by())
        try:
            staged, came = self._rewritten(stage, schema, replaced, had, outcomes)
        except BaseException:
            stage.abandon()
            raise
        moves = {one: end for one, (_, end) in self._new.items() if end > handle.positions([one]).get(one, 0)}
        self._removed |= {str(source): len(some) - came.get(source, 0) for source, some in had.items()}
        note_removed(self._config.central, HubNames(self._config.hub), self._plan.id, self._removed)
        try:
            version = handle.commit(staged, moves, replaced, note=self._note(policies))
        except CommitConflict:
            remove(self._folder, staged)
            raise
        return Restated(self._name, version, sum(map(len, had.values())))

    def _hit(self, handle: TableHandle) -> tuple[list[LiveFile], dict[EdgePartition, Numbers]]:
        """Files with affected rows, and the origins of these."""
        hit: list[LiveFile] = []
        found: dict[EdgePartition, list[Numbers]] = {}
        for live in handle.live():
            origins = self._affected.origins(pq.read_table(self._folder / live.path, columns=list(ORIGIN_COLUMNS)))
            if origins:
                hit.append(live)
            for source, numbers in origins.items():
                found.setdefault(source, []).append(numbers)
        return hit, {source: np.concatenate(some) for source, some in found.items()}

    def _rewritten(
        self,
        stage: Stage,
        schema: pa.Schema,
        replaced: Sequence[LiveFile],
        had: Mapping[EdgePartition, Numbers],
        outcomes: Sequence[Outcome],
    ) -> tuple[tuple[StagedFile, ...], dict[EdgePartition, int]]:
        """What stays of the hit files, and the new rows of the origins that they had."""
        for rows in _rows(self._folder / one.path for one in replaced):
            _add(stage, rows.filter(pa.array(~self._affected.marks(rows))), schema)
        came: dict[EdgePartition, int] = {}
        for rows in _rows(self._scratch / file.path for outcome in outcomes for file in outcome.files):
            ours = rows.filter(pa.array(self._affected.of(rows, had)))
            for source, numbers in self._affected.origins(ours).items():
                came[source] = came.get(source, 0) + len(numbers)
            _add(stage, ours, schema)
        return stage.close(), came

    def _note(self, policies: Mapping[str, str]) -> dict[str, str]:
        """What the commit says of itself: which backfill, which policies, which offsets."""
        ranges = {str(one.source): [[at, *offsets] for at, offsets in one.segments[:_SHOWN]] for one in self._again}
        topics = {f"{one.source.edge}/{one.source.topic}" for one in self._plan.writes}
        used = {topic: policies[topic] for topic in topics if topic in policies}
        return {
            "hub.restate": self._plan.id,
            "hub.restate.policy": json.dumps(used, sort_keys=True),
            "hub.restate.ranges": json.dumps(ranges, sort_keys=True),
        }


def _add(stage: Stage, rows: pa.Table, schema: pa.Schema) -> None:
    if rows.num_rows:
        stage.add(conformed(rows, schema))


def _rows(paths: Iterable[Path]) -> Iterator[pa.Table]:
    for path in paths:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield pa.Table.from_batches([batch])
