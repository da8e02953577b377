"""Brings staged outcomes into a table: settles them, creates or widens the table, and commits. After a conflict all
steps are repeated.

Invariant (protocol, rule G): positions are read from the handle that commits, and every attempt has a handle of its
own. Outcomes that another writer's commit has overtaken are dropped. A commit owns its outcomes, and removes those that
it never sent. An outcome whose columns do not fit the table is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from aggregator.coordinates import CentralPartition
from aggregator.errors import AggregatorError, HoldError
from aggregator.lake.columns.columns import FIXED_COLUMNS, TypePromotion, merge_schemas
from aggregator.lake.cycle.attempts import Done, commit_with_retries
from aggregator.lake.cycle.ranges import CommittableOutcomes, StagingOutcome, TableHold, committable
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import discard
from aggregator.lake.tables.port import TableHandle, Tables


@dataclass(frozen=True, slots=True)
class CommitResult:
    """Describes what a commit did. It has no version if there was nothing worth a commit.

    Attributes:
        version: The table's version, None if nothing was committed.
        positions: The table's next offsets now, of the partitions that were asked about.
        settled: Outcomes that were taken, and outcomes that were dropped.
        held: Outcomes that do not fit the table's columns.
    """

    version: int | None
    positions: Mapping[CentralPartition, int]
    settled: CommittableOutcomes
    held: tuple[TableHold, ...] = ()

    @property
    def files(self) -> list[StagedFile]:
        """The files that the commit brought into the table."""
        return self.settled.files if self.version is not None else []


@dataclass(frozen=True, slots=True)
class Commit:
    """Repeats attempts to bring outcomes into table `name`.

    Args:
        tables: The format of the tables.
        name: Table name.
        outcomes: In the order of the plan.
        force: Commit positions that moved over nothing but markers, too.
        may_skip_ahead: Whether outcomes may start beyond the table's positions. True for a quarantine: earlier offsets
            did not pass through it.
    """

    tables: Tables
    name: str
    outcomes: Sequence[StagingOutcome]
    force: bool = False
    may_skip_ahead: bool = False

    def run(self, handle: TableHandle | None) -> CommitResult:
        """Commit, at first with the handle whose positions the plan was made from.

        Raises:
            RetryError: too many conflicts, or the storage does not answer; files that were sent stay for the sweep.
            HoldError: the table cannot take them.
        """
        first = [handle]
        try:
            result = commit_with_retries(
                self.name, lambda: self._attempt(first.pop() if first else self.tables.open(self.name))
            )
        except AggregatorError:  # this may be repeated, so files that were never sent must not pile up
            discard_outcomes(self.tables.folder / self.name, self.outcomes)
            raise
        taken = result.settled.accepted if result.version is not None else ()
        refused = [outcome for outcome in self.outcomes if outcome not in taken]
        discard_outcomes(self.tables.folder / self.name, refused)
        return result

    def _attempt(self, handle: TableHandle | None) -> Done[CommitResult] | None:
        """Take one step; None when the table was created or widened and the next handle must be opened."""
        partitions = {one.span.partition for outcome in self.outcomes for one in outcome.reached}
        schema = handle.schema() if handle else self.tables.narrowed(FIXED_COLUMNS)
        wider, fitting, held = split_by_fit(schema, self.outcomes, self.tables.promotes)
        positions: Mapping[CentralPartition, int] = handle.positions(partitions) if handle else {}
        if self.may_skip_ahead:
            positions = _advance_to_starts(positions, self.outcomes)
        settled = committable(fitting, positions)
        if not settled.positions or not (self.force or settled.worth_a_commit()):
            return Done(CommitResult(None, positions, settled, held))
        if handle is None:
            self.tables.create(self.name, wider)
            return None
        if wider != schema:
            handle.widen(wider)
            return None
        version = handle.commit(settled.files, settled.positions, note=settled.note())
        return Done(CommitResult(version, {**positions, **settled.positions}, settled, held))


def split_by_fit(
    schema: pa.Schema, outcomes: Sequence[StagingOutcome], promotes: TypePromotion
) -> tuple[pa.Schema, list[StagingOutcome], tuple[TableHold, ...]]:
    """The schema that holds the table and what fits it, what fits, and why the rest does not.

    Args:
        schema: The table's schema.
        outcomes: In the order of the plan.
        promotes: Types that its columns can change to.
    """
    fitting: list[StagingOutcome] = []
    held: list[TableHold] = []
    for outcome in outcomes:
        try:
            for file in outcome.files:
                schema = merge_schemas(schema, pa.ipc.read_schema(pa.py_buffer(file.schema)), promotes)
        except HoldError as error:
            held += [TableHold(one.span.partition, str(error)) for one in outcome.reached]
        else:
            fitting.append(outcome)
    return schema, fitting, tuple(held)


def _advance_to_starts(
    positions: Mapping[CentralPartition, int], outcomes: Sequence[StagingOutcome]
) -> Mapping[CentralPartition, int]:
    """Positions that lie before the first of the outcomes, moved to where it begins."""
    starts: dict[CentralPartition, int] = {}
    for outcome in outcomes:
        for one in outcome.reached:
            starts.setdefault(one.span.partition, one.span.offsets.start)
    return {one: max(offset, starts.get(one, offset)) for one, offset in positions.items()}


def discard_outcomes(folder: Folder, outcomes: Iterable[StagingOutcome]) -> None:
    """Remove what was staged and is not committed, except what a commit was sent with."""
    discard(folder, [file.path for outcome in outcomes for file in outcome.files])
