"""Replaces rows of one table by new rows of the same origins, in one commit, while other writers commit to the table.

Invariant: only origins that the table has are replaced, each by its own new row. If no new row came for an origin, its
row leaves only if the restate reported that it read the record and left it out. Otherwise the row stays, because an
unread record proves nothing. A tombstone stays until another tombstone of its record is admitted: it holds no value,
and without it deleted rows would come back. All other rows stay. Their keys follow those of the replaced rows
(`key_images`), so that no row becomes the latest of its key again.

The handle that showed the rows commits (protocol, rule G), with a mark, so that it happens once. Work that was done
before a conflict is used again as far as it is still valid. After a few conflicts the hub leaves the replacement a
turn, so that it succeeds even on a table that changes every second.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS, Affected, Numbers, Origins
from aggregator.backfill.key_images import KEY_COLUMNS
from aggregator.backfill.retained_rows import RetainedRows, RetainedRowSearch, bytes_of, check_bytes, same
from aggregator.backoff import Backoff
from aggregator.coordinates import CentralPartition, EdgePartition
from aggregator.errors import HoldError
from aggregator.lake.columns.columns import conform_to_schema
from aggregator.lake.cycle.attempts import Done, commit_with_retries
from aggregator.lake.cycle.commit import split_by_fit
from aggregator.lake.cycle.ranges import StagingOutcome
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import StagingLease, discard
from aggregator.lake.tables.live_rows import live_rows
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables
from aggregator.lake.tables.storage_errors import storage_errors

_VACUUMED = "was the table vacuumed meanwhile, or is the disk full? then resume"
ATTEMPTS, PAUSES = 20, Backoff(first_s=0.05, most_s=0.8)


class Admission(Protocol):
    """What a table requires of rows before anybody may see them."""

    def audit_replacement(self, handle: TableHandle, outcomes: Sequence[StagingOutcome]) -> list[StagingOutcome]:
        """The staged rows that the table may commit; a second call decides nothing new."""

    def record_commit(self, version: int, outcomes: Sequence[StagingOutcome]) -> None:
        """Record that the outcomes were committed in a version of the table."""


class AdmitAll:
    """The admission of a table without rules."""

    def audit_replacement(self, _handle: TableHandle, outcomes: Sequence[StagingOutcome]) -> list[StagingOutcome]:
        """Admit every outcome."""
        return list(outcomes)

    def record_commit(self, _version: int, _outcomes: Sequence[StagingOutcome]) -> None:
        """Do nothing, because nothing is recorded without a gate."""


class NewRows(NamedTuple):
    """Holds the new rows for a table.

    Attributes:
        outcomes: What was staged of them, outside of the table, and of the records that were read and left out.
        folder: Folder of the staged files.
        positions: Next offsets of the topics that the rows came from.
        note: Kept with their commit.
    """

    outcomes: Sequence[StagingOutcome]
    folder: Folder
    positions: Mapping[CentralPartition, int]
    note: Mapping[str, str]


class Replaced(NamedTuple):
    """Describes a commit that replaced rows.

    Attributes:
        version: The version of the table that it made.
        rows: Rows that it replaced or removed.
        left: Rows that stay, because their records were not read, or yield no tombstone any more.
        keyless: Rows that stay without their key, because nobody knows what it is under the policy.
    """

    version: int
    rows: int
    left: int
    keyless: int


class _Fresh(NamedTuple):
    """New rows in the table's folder.

    Attributes:
        outcomes: Outcomes that the table admits.
        old_rows: Origins that the table had when the new rows were staged.
        left: Those of `old_rows` that stay as they are.
        removed: Number of rows of `old_rows` that leave without a replacement, by flow.
        new_keys: Origins and keys of all new rows, admitted or not.
    """

    outcomes: list[StagingOutcome]
    old_rows: Origins
    left: Origins
    removed: Mapping[str, int]
    new_keys: list[pa.Table]


class _Kept(NamedTuple):
    """The rows of some files that stay, staged anew."""

    rest: RetainedRows
    paths: frozenset[str]
    files: tuple[StagedFile, ...]


class Replacement:
    """Replaces the affected rows of one table.

    Args:
        tables: The tables of the lake, in its format.
        name: The table's name.
        affected: The origins whose rows are replaced.
        mark: Position that only this replacement's commit has.
        admission: Check that new rows must pass.
    """

    def __init__(
        self,
        tables: Tables,
        name: str,
        affected: Affected,
        *,
        mark: CentralPartition,
        admission: Admission,
    ) -> None:
        self._tables = tables
        self._folder = tables.folder / name
        self._name = name
        self._affected = affected
        self._mark = mark
        self._admission = admission
        self._origins: dict[str, Origins] = {}
        self._fresh: _Fresh | None = None
        self._staying = RetainedRowSearch(self._folder, affected)
        self._kept: list[_Kept] = []
        self._lease: StagingLease | None = None

    def is_done(self, handle: TableHandle) -> bool:
        """Whether the table already has the replacement's commit."""
        return self._mark in handle.positions([self._mark])

    def hits(self, handle: TableHandle) -> list[LiveFile]:
        """The live files that have affected rows.

        Raises:
            TableUnavailable: a file cannot be read.
        """
        live = handle.live_files()
        for one in live:
            if one.path not in self._origins:
                with storage_errors(self._folder, hint=_VACUUMED):
                    rows = live_rows(self._folder, one, ORIGIN_COLUMNS)
                self._origins[one.path] = self._affected.origins(rows)
        return [one for one in live if self._origins[one.path]]

    def commit(self, new_rows: NewRows, on_removed: Callable[[Mapping[str, int]], None]) -> Replaced | None:
        """Commit; None where it was done before, by whomever.

        Args:
            new_rows: The new rows.
            on_removed: Takes, before every attempt, how many rows of each flow leave the table and are not followed.

        Raises:
            HoldError: the new rows do not fit the table, or its rules refuse them.
            CommitConflict: other writers were faster again and again.
            RetryError: the storage does not answer.
        """
        lease = self._lease = StagingLease(self._folder, new_rows.folder)
        try:
            with storage_errors(self._folder, hint=_VACUUMED):
                lease.renew()
            return commit_with_retries(
                self._name,
                lambda: self._attempt(new_rows, on_removed),
                most=ATTEMPTS,
                pauses=PAUSES,
                folder=self._folder,
            )
        finally:
            self._drop_fresh()
            self._drop_kept()
            lease.end()

    def _attempt(
        self, new_rows: NewRows, on_removed: Callable[[Mapping[str, int]], None]
    ) -> Done[Replaced | None] | None:
        """Work out and commit with one handle; None when the table was widened and the next one must be opened."""
        handle = self._tables.open(self._name)
        if handle is None or self.is_done(handle):
            return Done(None)
        schema = handle.schema()
        wider, _, held = split_by_fit(schema, new_rows.outcomes, self._tables.promotes)
        if held:
            raise HoldError(f"table {self._name}: {held[0].reason}", hint="make a new generation instead: --into v2")
        if wider != schema:
            handle.widen(wider)
            return None
        hits = self.hits(handle)
        old_rows = _joined(self._origins[one.path] for one in hits)
        with storage_errors(self._folder, hint=_VACUUMED):
            fresh = self._stage_new_rows(handle, hits, old_rows, new_rows)
            rest = self._staying.retained(handle.live_files(), hits, fresh.left, fresh.new_keys)
            kept = self._keep(handle, rest)
        on_removed(fresh.removed)
        files = [*kept, *(file for outcome in fresh.outcomes for file in outcome.files)]
        replaced = [one for one in handle.live_files() if one.path in rest.replaced]
        version = handle.commit(files, {**new_rows.positions, self._mark: 1}, replaced, new_rows.note)
        self._admission.record_commit(version, fresh.outcomes)
        left = _count(fresh.left)
        return Done(Replaced(version, _count(old_rows) - left, left, rest.lost))

    def _stage_new_rows(
        self, handle: TableHandle, hits: Sequence[LiveFile], old_rows: Origins, new_rows: NewRows
    ) -> _Fresh:
        """New rows of the origins that the table has, in its folder, as far as it admits them."""
        if self._fresh is None or not same(self._fresh.old_rows, old_rows):
            self._drop_fresh()
            new_keys: list[pa.Table] = []
            picked = [
                self._picked(handle, old_rows, outcome, new_rows.folder, new_keys) for outcome in new_rows.outcomes
            ]
            missing = _without(old_rows, _joined(self._affected.origins(rows) for rows in new_keys))
            unread, deletions = _without(missing, self._left_out(new_rows)), _joined([self._staying.tombstones(hits)])
            admitted = self._admission.audit_replacement(handle, picked)
            left = _joined([unread, _without(deletions, self._tombstones(admitted))])
            gone = _without(missing, left)
            removed = {str(source): len(gone.get(source, ())) for source in old_rows}
            self._fresh = _Fresh(admitted, old_rows, left, removed, new_keys)
        return self._fresh

    def _left_out(self, new_rows: NewRows) -> Origins:
        """Origins of the plan whose records were read and yield no row."""
        files = [file.path for outcome in new_rows.outcomes for file in outcome.left_out]
        return _joined(self._affected.origins(new_rows.folder.rows(path, list(ORIGIN_COLUMNS))) for path in files)

    def _tombstones(self, outcomes: Iterable[StagingOutcome]) -> Origins:
        """The affected origins of the new rows that are tombstones."""
        files = [self._folder.rows(file.path, list(KEY_COLUMNS)) for outcome in outcomes for file in outcome.files]
        return _joined(self._affected.origins(rows.filter(rows["_deleted"])) for rows in files)

    def _picked(
        self, handle: TableHandle, old_rows: Origins, outcome: StagingOutcome, folder: Folder, new_keys: list[pa.Table]
    ) -> StagingOutcome:
        size = bytes_of(new_keys)
        with self._stage(handle) as stage:
            for rows in (rows for file in outcome.files for rows in folder.batches(file.path)):
                ours = rows.filter(pa.array(self._affected.of(rows, old_rows)))
                new_keys.append(ours.select(KEY_COLUMNS))
                size += new_keys[-1].nbytes
                check_bytes(size)
                _add(stage, ours, handle.schema())
            return StagingOutcome(outcome.reached, stage.close())

    def _keep(self, handle: TableHandle, rest: RetainedRows) -> list[StagedFile]:
        """Stage the remaining rows of replaced files; reuse files that an earlier attempt staged."""
        if not all(one.rest.is_same_for(rest, one.paths) for one in self._kept):
            self._drop_kept()
        paths = rest.replaced.keys() - frozenset[str]().union(*(one.paths for one in self._kept))
        if paths:
            with self._stage(handle) as stage:
                for file in (one for one in handle.live_files() if one.path in paths):
                    for rows in self._staying.of_file(file, rest):
                        _add(stage, rows, handle.schema())
                self._kept.append(_Kept(rest, frozenset(paths), stage.close()))
        return [file for one in self._kept for file in one.files]

    @contextmanager
    def _stage(self, handle: TableHandle) -> Iterator[StagingWriter]:
        promotes, partition_columns = self._tables.promotes, handle.partition_columns()
        stage = StagingWriter(
            self._folder, handle.schema(), promotes=promotes, partition_columns=partition_columns, lease=self._lease
        )
        try:
            yield stage
        except BaseException:
            stage.abandon()
            raise

    def _drop_fresh(self) -> None:
        for outcome in self._fresh.outcomes if self._fresh else ():
            discard(self._folder, [file.path for file in outcome.files])
        self._fresh = None

    def _drop_kept(self) -> None:
        discard(self._folder, [file.path for one in self._kept for file in one.files])
        self._kept = []


def _joined(some: Iterable[Origins]) -> Origins:
    """The origins of all files or rows, each once: a tombstone may come under several versions of a key."""
    found: dict[EdgePartition, list[Numbers]] = {}
    for origins in some:
        for source, numbers in origins.items():
            found.setdefault(source, []).append(numbers)
    return {source: np.unique(np.concatenate(numbers)) for source, numbers in found.items()}


def _without(some: Origins, others: Origins) -> Origins:
    """The origins that are in `some` and not in `others`."""
    nothing = np.zeros(0, np.int64)
    rest = {source: np.setdiff1d(numbers, others.get(source, nothing), True) for source, numbers in some.items()}
    return {source: numbers for source, numbers in rest.items() if len(numbers)}


def _count(origins: Origins) -> int:
    return sum(map(len, origins.values()))


def _add(stage: StagingWriter, rows: pa.Table, schema: pa.Schema) -> None:
    if rows.num_rows:
        stage.add(conform_to_schema(rows, schema))
