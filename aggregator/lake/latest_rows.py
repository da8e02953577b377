"""Finds the latest row of each key in files of a table.

Invariant: pure but for reading. Memory holds the keys of the files, twice at most, and one row group of rows. A row is
later than another of its edge partition if its (`_incarnation`, `_offset`) is greater.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from aggregator.coordinates import EdgePartition
from aggregator.lake.storage.folder import Folder, without_views
from aggregator.lake.tables.live_rows import live_rows, with_partition_columns
from aggregator.lake.tables.port import LiveFile

_PARTITION = ["_edge", "_topic", "_partition"]
_KEY = [*_PARTITION, "_key"]
_ORDER = ["_incarnation", "_offset"]
_FEWEST = 200_000
_UNTOLD = -1  # the incarnation of a record whose origin does not say it
_INDEX = {
    "_edge": pl.String,
    "_topic": pl.String,
    "_partition": pl.Int32,
    "_key": pl.Binary,
    "_incarnation": pl.Int32,
    "_offset": pl.Int64,
    "_deleted": pl.Boolean,
}
# The greatest (incarnation, offset) of each edge partition.
Marks = Mapping[EdgePartition, tuple[int, int]]


@dataclass(frozen=True)
class Latest:
    """The latest row of each key.

    Args:
        folder: The table's.
        files: Its files.
        index: A row for each key, with its place: the number of the file, and of the row in it.
    """

    folder: Folder
    files: Sequence[LiveFile]
    index: pl.DataFrame

    def marks(self, before: Marks) -> Marks:
        """The newest row of each edge partition, in these files or before."""
        newest = self.index.sort(_ORDER).unique(_PARTITION, keep="last").select(_PARTITION + _ORDER)
        found = {EdgePartition(*row[:3]): (row[3], row[4]) for row in newest.iter_rows()}
        return {**before, **{at: max(order, before.get(at, order)) for at, order in found.items()}}

    def is_late(self, marks: Marks) -> bool:
        """Whether one of the rows is not newer than the newest of its edge partition before."""
        oldest = self.index.sort(_ORDER).unique(_PARTITION, keep="first").select(_PARTITION + _ORDER)
        return any((row[3], row[4]) <= marks.get(EdgePartition(*row[:3]), (-1, -1)) for row in oldest.iter_rows())

    def rows(self) -> Iterator[pa.Table]:
        """The rows whose keys were not deleted, row group by row group.

        Raises:
            OSError: a file cannot be read.
        """
        kept = self.index.filter(~pl.col("_deleted")).sort("file", "row")
        for (number,), rows in kept.group_by(["file"], maintain_order=True):
            yield from _picked(self.folder, self.files[int(str(number))], rows["row"])


def latest(folder: Folder, files: Iterable[LiveFile]) -> Latest:
    """Find the latest row of every key that the files have.

    Args:
        folder: The table's.
        files: Files of it, live or replaced.

    Raises:
        OSError: a file cannot be read.
    """
    listed = list(files)
    index, waiting, count = _indexed(pl.DataFrame(schema=_INDEX), 0), list[pl.DataFrame](), 0
    for number, file in enumerate(listed):
        rows = _indexed(_columns(folder, file, [*_KEY, *_ORDER, "_deleted"]), number)
        rows = rows.with_columns(pl.col("_incarnation").fill_null(_UNTOLD))
        waiting.append(rows.filter(pl.col("_key").is_not_null() & pl.col("_offset").is_not_null()))
        count += len(waiting[-1])
        if count > max(_FEWEST, len(index)):  # each row is sorted a few times, however many files there are
            index, waiting, count = _newest(index, waiting), [], 0
    return Latest(folder, listed, _newest(index, waiting))


def _newest(index: pl.DataFrame, more: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat([index, *more]).sort(_ORDER).unique(_KEY, keep="last", maintain_order=False)


def superseded(
    folder: Folder, live: Iterable[LiveFile], newer: Latest
) -> Iterator[tuple[LiveFile, Iterator[pa.Table]]]:
    """The files of a current state that hold a row of one of the keys, each with its rows of all other keys.

    Args:
        folder: The current state's.
        live: Its files.
        newer: Later rows of some keys, or their deletion.

    Raises:
        OSError: a file cannot be read.
    """
    keys = newer.index.select(_KEY)
    for file in live:
        rows = _columns(folder, file, _KEY).with_row_index("row")
        kept = rows.join(keys, on=_KEY, how="anti", nulls_equal=True, maintain_order="left")["row"]
        if len(kept) < len(rows):
            yield file, _picked(folder, file, kept)


def _columns(folder: Folder, file: LiveFile, names: list[str]) -> pl.DataFrame:
    columns = pl.from_arrow(live_rows(folder, file, names))
    assert isinstance(columns, pl.DataFrame)
    return columns


def _indexed(rows: pl.DataFrame, number: int) -> pl.DataFrame:
    return rows.with_row_index("row").with_columns(pl.lit(number, pl.UInt32).alias("file"))


def _picked(folder: Folder, live: LiveFile, rows: pl.Series) -> Iterator[pa.Table]:
    """Rows of one file by their ascending numbers."""
    with folder.parquet(live.path) as file:
        start = 0
        for group in range(file.num_row_groups):
            end = start + file.metadata.row_group(group).num_rows
            wanted = rows.filter((rows >= start) & (rows < end)).cast(pl.Int64) - start
            if len(wanted):
                read = without_views(file.read_row_group(group))
                yield with_partition_columns(read.take(wanted.to_arrow()), live)
            start = end
