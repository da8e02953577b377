"""Small files of a table rewritten into larger ones, beside a hub that goes on committing.

Invariant: the same rows before and after, and no position is touched. What was rewritten is committed from a fresh
handle only while every file that it stands for is still live; a hub's own commit in between makes one of the two try
again from a fresh read. Refuses tables in which rows are marked as deleted beside their files.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from aggregator.backoff import Backoff
from aggregator.errors import Failed
from aggregator.lake.attempts import Done, attempted
from aggregator.lake.columns import conformed
from aggregator.lake.files import Stage, StagedFile
from aggregator.lake.folder import Folder
from aggregator.lake.orphans import PREFIX, Lease, discard, leased
from aggregator.lake.partitioning import Part
from aggregator.lake.tables.port import LiveFile, TableHandle, Tables

TARGET_BYTES = 128 * 1024 * 1024
_PAUSES = Backoff(first_s=0.1, most_s=0.8)
_BATCH_ROWS = 16_384


class Compacted(NamedTuple):
    """What a compaction did: files before and after, of those that were rewritten."""

    before: int = 0
    after: int = 0


def bins(live: Iterable[LiveFile], *, target_bytes: int = TARGET_BYTES) -> list[list[LiveFile]]:
    """Which files are rewritten together.

    Args:
        live: A version's files, in any order.
        target_bytes: Size of a file that is large enough; one of three quarters of it stays as it is.

    Returns:
        Groups of at least two files of one part of the table, none longer than the target together.
    """
    groups: list[list[LiveFile]] = []
    filling: dict[Part, list[LiveFile]] = {}
    for file in sorted(live, key=lambda one: (one.size, one.path)):
        if file.size * 4 > target_bytes * 3 or not file.path.startswith(PREFIX):
            continue
        group = filling.get(file.partition)
        if group is None or sum(one.size for one in group) + file.size > target_bytes:
            group = filling[file.partition] = []
            groups.append(group)
        group.append(file)
    return [group for group in groups if len(group) > 1]


def compact(tables: Tables, folder: Folder, name: str, *, target_bytes: int = TARGET_BYTES) -> Compacted:
    """Compact one table; each group of files is a commit of its own.

    Args:
        tables: The format.
        folder: The table's.
        name: The table's.
        target_bytes: See `bins`.

    Raises:
        HoldError: the table holds rows that another tool marked as deleted.
        RetryError: the storage does not answer, or other writers were faster every time.
    """
    handle = tables.open(name)
    done = Compacted()
    if handle is None:
        return done
    for group in bins(handle.live(), target_bytes=target_bytes):
        with leased(folder) as lease:
            staged = _rewritten(folder, handle, group, target_bytes, lease)
            if _swapped(tables, name, group, staged):
                done = Compacted(done.before + len(group), done.after + len(staged))
            else:
                discard(folder, [file.path for file in staged])
    return done


def _rewritten(
    folder: Folder, handle: TableHandle, group: Sequence[LiveFile], target_bytes: int, lease: Lease
) -> tuple[StagedFile, ...]:
    """The rows of a group in new files, under the table's columns of today."""
    schema = handle.schema()
    stage = Stage(folder, schema, divided_by=handle.divided_by(), file_bytes=target_bytes, lease=lease)
    try:
        for rows in _rows(folder, group):
            stage.add(conformed(rows, schema))
        staged = stage.close()
    except BaseException:
        stage.abandon()
        raise
    expected, found = sum(file.rows for file in group), sum(file.rows for file in staged)
    if expected != found:
        discard(folder, [file.path for file in staged])
        raise Failed(
            f"{folder}: {expected} rows became {found} while files were rewritten; nothing was committed",
            hint="run it again; if it repeats, read the table with another tool and report both counts",
        )
    return staged


def _rows(folder: Folder, group: Iterable[LiveFile]) -> Iterator[pa.Table]:
    for live in group:
        with folder.parquet(live.path) as file:
            for batch in file.iter_batches(_BATCH_ROWS):
                yield pa.Table.from_batches([batch])


def _swapped(tables: Tables, name: str, group: Sequence[LiveFile], staged: Sequence[StagedFile]) -> bool:
    """Commit a rewritten group; False where another writer replaced one of its files meanwhile."""

    def attempt() -> Done[bool]:
        handle = tables.open(name)
        if handle is None or not {file.path for file in group} <= set(handle.files()):
            return Done(result=False)
        handle.commit(staged, {}, replaced=group)
        return Done(result=True)

    return attempted(name, attempt, pauses=_PAUSES)
