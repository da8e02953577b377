"""Rewrites small files of a table into larger ones, while a hub goes on committing to the table.

Invariant: the rows are the same before and after, and no position changes. The new files are committed from a fresh
handle, and only while every file that they replace is still live. If a hub commits in between, one of the two tries
again from a fresh read. A table that is not what its files say is refused (`tables/plain_files.py`).

Files are compacted by tiers, as in log-structured stores. The tier of a file is the highest power of `RATIO` that its
number of records has reached. Files that are rewritten together are of one tier. If they are at least `RATIO` files,
the result is of a higher tier. So a record is rewritten about once per tier, however long the table lives. Within a
tier, files are taken in the order of their records' times, so that a reader's condition on time skips files. Their rows
are put in the order of `cluster_by`.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeVar

import pyarrow as pa

from aggregator.backoff import Backoff
from aggregator.errors import FatalError
from aggregator.lake.columns.columns import conform_to_schema
from aggregator.lake.columns.partitioning import PartitionValues
from aggregator.lake.cycle.attempts import Done, commit_with_retries
from aggregator.lake.parquet.batches import batches
from aggregator.lake.storage.files import StagedFile, StagingWriter
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import STAGED_PREFIX, StagingLease, discard, leased
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables
from aggregator.lake.upkeep.clustering import check_columns, in_runs

T = TypeVar("T")
TARGET_BYTES = 128 * 1024 * 1024
RATIO = 8
_PAUSES = Backoff(first_s=0.1, most_s=0.8)


class Compacted(NamedTuple):
    """Counts the files that a compaction rewrote, and the files that it wrote for them."""

    before: int = 0
    after: int = 0


def bins(live: Iterable[LiveFile], *, target_bytes: int = TARGET_BYTES, fewest: int = 2) -> list[list[LiveFile]]:
    """The groups of files that are rewritten together.

    Args:
        live: A version's files, in any order.
        target_bytes: Size of a file that is large enough; one of three quarters of it stays as it is.
        fewest: Files of a group; two are enough where they make a file that is large enough. With `RATIO` every file
            that a group makes is of a higher tier.

    Returns:
        Groups of at least two files of one part and tier, none longer than the target together; the longest list first.
    """
    tiers: dict[tuple[PartitionValues, int], list[LiveFile]] = {}
    for file in sorted(live, key=_place):
        if not _is_large(file.size, target_bytes) and file.path.startswith(STAGED_PREFIX):
            tiers.setdefault((file.partition, _tier(file.rows)), []).append(file)
    groups = [group for files in tiers.values() for group in _together(files, _size_of_file, target_bytes)]
    return sorted((group for group in groups if _is_worth_it(group, target_bytes, fewest)), key=len, reverse=True)


def _place(file: LiveFile) -> tuple[bool, int, str]:
    """The key that sorts files by time; files that do not tell theirs come first."""
    return file.begins_us is not None, file.begins_us or 0, file.path


def _is_large(size: int, target_bytes: int) -> bool:
    return size * 4 > target_bytes * 3


def _tier(rows: int) -> int:
    tier = 0
    while rows >= RATIO:
        rows, tier = rows // RATIO, tier + 1
    return tier


def _size_of_file(file: LiveFile) -> int:
    return file.size


def _size_of_group(group: Iterable[LiveFile]) -> int:
    return sum(file.size for file in group)


def _together(items: Iterable[T], size_of: Callable[[T], int], target_bytes: int) -> Iterator[list[T]]:
    """Items in their order, as many together as the target holds."""
    group: list[T] = []
    size = 0
    for item in items:
        more = size_of(item)
        if group and size + more > target_bytes:
            yield group
            group, size = [], 0
        group.append(item)
        size += more
    if group:
        yield group


def _is_worth_it(group: Sequence[LiveFile], target_bytes: int, fewest: int) -> bool:
    return len(group) > 1 and (len(group) >= fewest or _is_large(_size_of_group(group), target_bytes))


def compact(
    tables: Tables,
    folder: Folder,
    name: str,
    *,
    cluster_by: Sequence[str] = (),
    target_bytes: int = TARGET_BYTES,
    fewest: int = 2,
    most: int | None = None,
) -> Compacted:
    """Compact one table; groups that are no longer than the target together are one commit.

    Args:
        tables: The format.
        folder: The table's.
        name: The table's.
        cluster_by: Columns by which rewritten rows are put in order.
        target_bytes: See `bins`.
        fewest: See `bins`.
        most: Commits; None for all.

    Raises:
        HoldError: the table is not what its files say: see `TableHandle.live_files`.
        FatalError: the table has no such columns.
        RetryError: the storage does not answer, or other writers were faster every time.
    """
    handle = tables.open(name)
    done = Compacted()
    if handle is None:
        return done
    groups = bins(handle.live_files(), target_bytes=target_bytes, fewest=fewest)
    if groups:
        check_columns(name, handle.schema(), cluster_by)
    stage = partial(_staged, folder, handle, target_bytes=target_bytes, cluster_by=cluster_by)
    for batch in itertools.islice(_together(groups, _size_of_group, target_bytes), most):
        rewritten: list[_Rewritten] = []
        with leased(folder) as lease:
            try:
                # Rewritten one after another: if one fails, the list holds the files that were staged before.
                rewritten.extend(_Rewritten(one, stage(one, lease=lease)) for one in batch)
                swapped = _swapped(tables, name, rewritten)
            except BaseException:
                _discard(folder, rewritten)
                raise
            _discard(folder, [one for one in rewritten if one not in swapped])
        before, after = (sum(map(len, files)) for files in zip(*swapped, strict=True)) if swapped else (0, 0)
        done = Compacted(done.before + before, done.after + after)
    return done


class _Rewritten(NamedTuple):
    """A group of files, and the files that replace it."""

    group: Sequence[LiveFile]
    staged: Sequence[StagedFile]


def _discard(folder: Folder, rewritten: Iterable[_Rewritten]) -> None:
    discard(folder, [file.path for one in rewritten for file in one.staged])


def _staged(
    folder: Folder,
    handle: TableHandle,
    group: Sequence[LiveFile],
    *,
    target_bytes: int,
    cluster_by: Sequence[str],
    lease: StagingLease,
) -> tuple[StagedFile, ...]:
    """The rows of a group in new files, under the table's columns of today."""
    schema = handle.schema()
    stage = StagingWriter(
        folder, schema, partition_columns=handle.partition_columns(), file_bytes=target_bytes, lease=lease
    )
    expected = 0

    def rows() -> Iterator[pa.Table]:
        nonlocal expected
        for live in group:
            with folder.parquet(live.path) as file:
                expected += file.metadata.num_rows
                for batch in batches(file):
                    yield conform_to_schema(batch, schema)

    try:
        for piece in in_runs(rows(), cluster_by):
            stage.add(piece)
            if cluster_by:
                stage.end_group()  # so that each row group's bounds cover one piece only
        staged = stage.close()
    except BaseException:
        stage.abandon()
        raise
    found = sum(file.rows for file in staged)
    if expected != found:
        discard(folder, [file.path for file in staged])
        raise FatalError(
            f"{folder}: {expected} rows became {found} while files were rewritten; nothing was committed",
            hint="run it again; if it repeats, read the table with another tool and report both counts",
        )
    return staged


def _swapped(tables: Tables, name: str, rewritten: Sequence[_Rewritten]) -> Sequence[_Rewritten]:
    """Commit rewritten groups; those that were: of others another writer replaced a file meanwhile."""

    def attempt() -> Done[list[_Rewritten]]:
        handle = tables.open(name)
        live = set(handle.live_paths()) if handle else set[str]()
        fit = [one for one in rewritten if {file.path for file in one.group} <= live]
        if handle and fit:
            staged = [file for one in fit for file in one.staged]
            handle.commit(staged, {}, replaced=[file for one in fit for file in one.group])
        return Done(fit)

    return commit_with_retries(name, attempt, pauses=_PAUSES)
