"""Rows of one table replaced by the same origins' new rows, in one commit, beside whoever else commits to it.

Invariant: only origins that the table has are replaced, each by its own new row. Where none came, the row leaves if the
edge still has its record, and stays if not: nobody could bring it again. All others stay. The handle that showed them
commits (protocol, rule G), with a mark, so that it happens once. What was worked out before a conflict is used
again as far as it still holds: a table that changes every second does not outrun it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from aggregator.backfill.affected_rows import ORIGIN_COLUMNS, Affected, Numbers, Origins
from aggregator.backoff import Backoff
from aggregator.coordinates import CentralPartition, EdgePartition
from aggregator.errors import HoldError
from aggregator.lake.attempts import Done, attempted
from aggregator.lake.columns import conformed
from aggregator.lake.commit import fitted
from aggregator.lake.files import Stage, StagedFile
from aggregator.lake.folder import Folder, reason, without_views
from aggregator.lake.orphans import Lease, discard
from aggregator.lake.ranges import Outcome
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables, TableUnavailable

ATTEMPTS, PAUSES = 20, Backoff(first_s=0.05, most_s=0.8)
_BATCH_ROWS = 16_384


class Admission(Protocol):
    """What a table asks of rows before anybody may see them."""

    def admit(self, handle: TableHandle, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """What of staged rows may be committed; asked again, it decides nothing anew."""

    def admitted(self, version: int, outcomes: Sequence[Outcome]) -> None:
        """They are in the table."""


class Everything:
    """The admission of a table without rules."""

    def admit(self, _handle: TableHandle, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Every outcome is admitted."""
        return list(outcomes)

    def admitted(self, _version: int, _outcomes: Sequence[Outcome]) -> None:
        """Nobody has to know."""


class Come(NamedTuple):
    """New rows that came for a table.

    Attributes:
        outcomes: What was staged of them, outside of the table.
        folder: Where that lies.
        positions: Next offsets of the topics that they came by.
        note: Kept with their commit.
    """

    outcomes: Sequence[Outcome]
    folder: Folder
    positions: Mapping[CentralPartition, int]
    note: Mapping[str, str]


class Replaced(NamedTuple):
    """A commit.

    Attributes:
        version: Its number.
        rows: Rows that it replaced or removed.
        left: Rows that stay as they were, because the edge has their records no more.
    """

    version: int
    rows: int
    left: int


class _Fresh(NamedTuple):
    """New rows in the table's folder.

    Attributes:
        outcomes: What the table admits of them.
        had: Origins that the table had when they were picked.
        left: Those of `had` that stay as they are.
        removed: How many of `had` leave and are not followed, by flow.
    """

    outcomes: list[Outcome]
    had: Origins
    left: Origins
    removed: Mapping[str, int]


class _Kept(NamedTuple):
    """What stays of replaced files, staged anew; `left` of the affected origins among it."""

    paths: frozenset[str]
    left: Origins
    files: tuple[StagedFile, ...]


class Replacement:
    """One table's.

    Args:
        tables: The format.
        name: The table.
        affected: Which origins.
        at_edge: Which of some origins the edges still have a record of.
        mark: A position that only this replacement's commit has.
        admission: What the table asks of new rows.
    """

    def __init__(
        self,
        tables: Tables,
        name: str,
        affected: Affected,
        *,
        at_edge: Callable[[Origins], Origins],
        mark: CentralPartition,
        admission: Admission,
    ) -> None:
        self._tables = tables
        self._folder = tables.folder / name
        self._name = name
        self._affected = affected
        self._at_edge = at_edge
        self._mark = mark
        self._admission = admission
        self._origins: dict[str, Origins] = {}
        self._fresh: _Fresh | None = None
        self._kept: _Kept | None = None
        self._lease: Lease | None = None

    def is_done(self, handle: TableHandle) -> bool:
        """Whether the table has it already."""
        return self._mark in handle.positions([self._mark])

    def hits(self, handle: TableHandle) -> list[LiveFile]:
        """Files with affected rows.

        Raises:
            TableUnavailable: a file can not be read.
        """
        live = handle.live()
        for one in live:
            if one.path not in self._origins:
                with _told(self._folder):
                    rows = self._folder.rows(one.path, list(ORIGIN_COLUMNS))
                self._origins[one.path] = self._affected.origins(rows)
        return [one for one in live if self._origins[one.path]]

    def bring(self, come: Come, tell: Callable[[Mapping[str, int]], None]) -> Replaced | None:
        """Commit; None where it was done before, by whomever.

        Args:
            come: The new rows.
            tell: Takes, before every attempt, how many rows of each flow leave the table and are not followed.

        Raises:
            HoldError: the new rows do not fit the table, or its rules refuse them.
            CommitConflict: other writers were faster again and again.
            RetryError: the storage, or an edge that is asked what it still has, does not answer.
        """
        lease = self._lease = Lease(self._folder, come.folder)
        try:
            with _told(self._folder):
                lease.renew()
            return attempted(self._name, lambda: self._attempt(come, tell), most=ATTEMPTS, pauses=PAUSES)
        finally:
            self._drop_fresh()
            self._drop_kept()
            lease.end()

    def _attempt(self, come: Come, tell: Callable[[Mapping[str, int]], None]) -> Done[Replaced | None] | None:
        """Work out and commit with one handle; None when the table was widened and the next one must be opened."""
        handle = self._tables.open(self._name)
        if handle is None or self.is_done(handle):
            return Done(None)
        schema = handle.schema()
        wider, _, held = fitted(schema, come.outcomes, self._tables.promotes)
        if held:
            raise HoldError(f"table {self._name}: {held[0].reason}", hint="make a new generation instead: --into v2")
        if wider != schema:
            handle.widen(wider)
            return None
        hits = self.hits(handle)
        had = _joined(self._origins[one.path] for one in hits)
        with _told(self._folder):
            fresh = self._freshly(handle, had, come)
            kept = self._keep(handle, hits, fresh.left)
        tell(fresh.removed)
        files = [*kept.files, *(file for outcome in fresh.outcomes for file in outcome.files)]
        version = handle.commit(files, {**come.positions, self._mark: 1}, hits, come.note)
        self._admission.admitted(version, fresh.outcomes)
        left = _count(fresh.left)
        return Done(Replaced(version, _count(had) - left, left))

    def _freshly(self, handle: TableHandle, had: Origins, come: Come) -> _Fresh:
        """New rows of the origins that the table has, in its folder, as far as it admits them."""
        if self._fresh is None or not _same(self._fresh.had, had):
            self._drop_fresh()
            came: list[Origins] = []
            picked = [self._picked(handle, had, outcome, come.folder, came) for outcome in come.outcomes]
            missing = _without(had, _joined(came))
            there = self._at_edge(missing)
            removed = {str(source): len(there.get(source, ())) for source in had}
            self._fresh = _Fresh(self._admission.admit(handle, picked), had, _without(missing, there), removed)
        return self._fresh

    def _picked(
        self, handle: TableHandle, had: Origins, outcome: Outcome, folder: Folder, came: list[Origins]
    ) -> Outcome:
        with self._stage(handle) as stage:
            for rows in _rows(folder, (file.path for file in outcome.files)):
                ours = rows.filter(pa.array(self._affected.of(rows, had)))
                came.append(self._affected.origins(ours))
                _add(stage, ours, handle.schema())
            return Outcome(outcome.reached, stage.close())

    def _keep(self, handle: TableHandle, hits: Sequence[LiveFile], left: Origins) -> _Kept:
        """What stays of these files."""
        paths = frozenset(one.path for one in hits)
        if self._kept is None or self._kept.paths != paths or not _same(self._kept.left, left):
            self._drop_kept()
            with self._stage(handle) as stage:
                for rows in _rows(self._folder, (one.path for one in hits)):
                    stays = ~self._affected.marks(rows) | self._affected.of(rows, left)
                    _add(stage, rows.filter(pa.array(stays)), handle.schema())
                self._kept = _Kept(paths, left, stage.close())
        return self._kept

    @contextmanager
    def _stage(self, handle: TableHandle) -> Iterator[Stage]:
        promotes, division = self._tables.promotes, handle.divided_by()
        stage = Stage(self._folder, handle.schema(), promotes=promotes, divided_by=division, lease=self._lease)
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
        if self._kept:
            discard(self._folder, [file.path for file in self._kept.files])
        self._kept = None


def _joined(some: Iterable[Origins]) -> Origins:
    """The origins of all files or rows, each once: a tombstone may come under several versions of a key."""
    found: dict[EdgePartition, list[Numbers]] = {}
    for origins in some:
        for source, numbers in origins.items():
            found.setdefault(source, []).append(numbers)
    return {source: np.unique(np.concatenate(numbers)) for source, numbers in found.items()}


def _without(some: Origins, others: Origins) -> Origins:
    """What is in the first and not in the second."""
    nothing = np.zeros(0, np.int64)
    rest = {source: np.setdiff1d(numbers, others.get(source, nothing), True) for source, numbers in some.items()}
    return {source: numbers for source, numbers in rest.items() if len(numbers)}


def _count(origins: Origins) -> int:
    return sum(map(len, origins.values()))


def _same(one: Origins, other: Origins) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(numbers, other[source]) for source, numbers in one.items())


def _add(stage: Stage, rows: pa.Table, schema: pa.Schema) -> None:
    if rows.num_rows:
        stage.add(conformed(rows, schema))


def _rows(folder: Folder, names: Iterable[str]) -> Iterator[pa.Table]:
    for name in names:
        with folder.parquet(name) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield without_views(pa.Table.from_batches([batch]))


@contextmanager
def _told(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TableUnavailable(
            f"{folder} can not be read or written: {reason(error)}",
            hint="was the table vacuumed meanwhile, or is the disk full? then resume",
        ) from None
