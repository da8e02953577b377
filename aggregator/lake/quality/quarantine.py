"""The quarantine of a table: records that failed a rule are in `<table>__quarantine`, with the names of the rules.

Invariant (protocol, rule G, on both tables): the quarantine's commit decides. It comes first, and moves the
quarantine's own positions over the whole range, even when nothing is diverted. The table's commit of the same range
comes after it. A range between the two positions is decided. A process that finds such a range publishes the records
that the quarantine does not hold, and evaluates no rule again. So each record is in exactly one of the two tables. This
holds if a process dies in between, and if another process would have decided differently.
"""

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import pyarrow.compute as pc

from aggregator.config.lake_model import QUARANTINE
from aggregator.coordinates import CentralPartition, OffsetRange
from aggregator.errors import AggregatorError
from aggregator.lake.cycle.commit import Commit, CommitResult
from aggregator.lake.cycle.ranges import Span, StagingOutcome, committable
from aggregator.lake.quality.split import TOPIC_ID, restage_without, rows_at
from aggregator.lake.storage.files import StagedFile
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import discard
from aggregator.lake.tables.port import TableHandle, Tables
from aggregator.lake.tables.storage_errors import storage_errors

_PLACE = ["_central_topic", "_central_partition", "_central_offset"]


class SplitOutcome(NamedTuple):
    """One task's outcome, cut in two. Both parts reach as far as the task did."""

    accepted: StagingOutcome
    quarantined: StagingOutcome


@dataclass(frozen=True)
class Quarantine:
    """The quarantine of one table.

    Args:
        tables: The format.
        lake: The folder that the tables lie in.
        table: The table's name.
    """

    tables: Tables
    lake: Folder
    table: str

    @property
    def name(self) -> str:
        """The quarantine's own name, as a table."""
        return f"{self.table}{QUARANTINE}"

    @property
    def folder(self) -> Folder:
        """The folder of the quarantine's files."""
        return self.lake / self.name

    def pending(
        self, positions: Mapping[CentralPartition, int], limits: Mapping[CentralPartition, OffsetRange]
    ) -> dict[CentralPartition, OffsetRange]:
        """The ranges that are decided and not yet in the table, as bounds for its partitions.

        Args:
            positions: The table's next offsets.
            limits: What each partition of central holds.

        Raises:
            RetryError: the quarantine does not answer.
        """
        handle = self.tables.open(self.name)
        decided = handle.positions(limits) if handle else {}
        return {
            one: OffsetRange(limits[one].start, min(upto, limits[one].end))
            for one, upto in decided.items()
            if upto > positions.get(one, limits[one].start)
        }

    def publish(self, handle: TableHandle | None, splits: Sequence[SplitOutcome], *, force: bool) -> CommitResult:
        """Commit the quarantined rows, then the accepted ones; staged files that no commit took are removed.

        Args:
            handle: The table's, whose positions the splits were planned from.
            splits: In the order of the plan.
            force: Commit positions that moved over nothing but markers, too.

        Raises:
            RetryError: too many conflicts, or the storage does not answer; what is decided by then stays decided.
            HoldError: one of the two tables cannot hold the columns.
        """
        partitions = {one.span.partition for split in splits for one in split.accepted.reached}
        positions = handle.positions(partitions) if handle else {}
        settled = committable([split.accepted for split in splits], positions)
        diverts = any(split.quarantined.files for split in splits)
        if not settled.positions or not (force or diverts or settled.worth_a_commit()):
            self._remove(splits)
            return CommitResult(None, positions, settled)
        decided, accepted = self.divert(splits)
        result = self._fill(handle, accepted)
        return CommitResult(result.version, result.positions, result.settled, (*decided.held, *result.held))

    def divert(self, splits: Sequence[SplitOutcome]) -> tuple[CommitResult, list[StagingOutcome]]:
        """Commit the quarantined rows, which decides the range; files of splits that others have decided are removed.

        Returns:
            The quarantine's commit, and the accepted rows of the splits that it took.

        Raises:
            RetryError: too many conflicts, or the storage does not answer.
            HoldError: the quarantine cannot hold the columns.
        """
        decided = self._decide(splits)
        taken = _taken(decided)
        self._remove([split for split in splits if split.quarantined not in taken])
        return decided, [split.accepted for split in splits if split.quarantined in taken]

    def complete(self, handle: TableHandle | None, outcomes: Sequence[StagingOutcome]) -> CommitResult:
        """Commit a decided range to the table: everything that the quarantine does not hold.

        Args:
            handle: The table's, whose positions the outcomes were planned from.
            outcomes: Staged from the range that is pending, and from nothing else.

        Raises:
            RetryError: a file cannot be read or written, or as `publish`.
        """
        return self._fill(handle, self.restage_accepted(outcomes))

    def restage_accepted(self, outcomes: Sequence[StagingOutcome]) -> list[StagingOutcome]:
        """Stage the files of a decided range again, without rows that the quarantine holds; return the new outcomes.

        Raises:
            RetryError: a file cannot be read or written.
        """
        held = self._held([one.span for outcome in outcomes for one in outcome.reached])
        return [self._restage_without(outcome, held) for outcome in outcomes]

    def _decide(self, splits: Sequence[SplitOutcome]) -> CommitResult:
        quarantined = [split.quarantined for split in splits]
        try:
            return Commit(self.tables, self.name, quarantined, force=True, may_skip_ahead=True).run(
                self.tables.open(self.name)
            )
        except AggregatorError:  # this may be repeated, so files that were never sent must not pile up
            self._remove(splits)
            raise

    def _fill(self, handle: TableHandle | None, accepted: Sequence[StagingOutcome]) -> CommitResult:
        return Commit(self.tables, self.table, accepted, force=True).run(handle)

    def _held(self, spans: Sequence[Span]) -> set[tuple[str, int, int]]:
        """Places of the quarantine's records within these spans."""
        handle = self.tables.open(self.name)
        wanted = reduce(operator.or_, map(_within, spans))
        found: set[tuple[str, int, int]] = set()
        for file in handle.live_paths() if handle else ():
            with storage_errors(f"{self.folder}/{file}", hint="the next cycle tries again", parquet=True):
                rows = self.folder.rows(file, [*_PLACE, TOPIC_ID], wanted).select(_PLACE)
            found |= set(zip(*rows.to_pydict().values(), strict=True))
        return found

    def _restage_without(self, outcome: StagingOutcome, held: set[tuple[str, int, int]]) -> StagingOutcome:
        folder = self.lake / self.table
        files: list[StagedFile] = []
        with storage_errors(folder):
            for file in outcome.files:
                rows = rows_at(folder, file.path, held)
                files += restage_without(folder, file, rows) if rows else (file,)
                if rows:
                    discard(folder, [file.path])
        return StagingOutcome(outcome.reached, tuple(files))

    def _remove(self, splits: Iterable[SplitOutcome]) -> None:
        for split in splits:
            discard(self.lake / self.table, [file.path for file in split.accepted.files])
            discard(self.folder, [file.path for file in split.quarantined.files])


def _taken(result: CommitResult) -> tuple[StagingOutcome, ...]:
    return result.settled.accepted if result.version is not None else ()


def _within(span: Span) -> pc.Expression:
    partition, (start, end) = span
    here = (pc.field("_central_topic") == partition.topic) & (pc.field("_central_partition") == partition.partition)
    offset = pc.field("_central_offset")
    return here & (pc.field(TOPIC_ID) == partition.topic_id) & (offset >= start) & (offset < end)
