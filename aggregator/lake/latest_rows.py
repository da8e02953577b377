"""Finds the latest row of each key in files of a table.

Invariant: pure but for reading. Memory holds the keys of the files, twice at most, and one row group of rows. A row is
later than another of its edge partition if its (`_incarnation`, `_offset`) is greater. A key is the record's or some
columns of its value; a tombstone deletes the rows before it whose records had its key.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl
import pyarrow as pa

from aggregator.coordinates import EdgePartition
from aggregator.lake.columns.columns import conform_to_schema
from aggregator.lake.storage.folder import Folder, without_views
from aggregator.lake.tables.live_rows import live_rows, with_partition_columns
from aggregator.lake.tables.port import LiveFile

_PARTITION = ["_edge", "_topic", "_partition"]
_RECORD_KEY = [*_PARTITION, "_key"]
_ORDER = ["_incarnation", "_offset"]
_FEWEST = 200_000
_ROW, _FILE = "#row", "#file"  # no field of a record has such a name
_UNTOLD = -1  # the incarnation of a record whose origin does not say it
_INDEX = {
    "_edge": pl.String,
    "_topic": pl.String,
    "_partition": pl.Int32,
    "_key": pl.Binary,
    "_incarnation": pl.Int32,
    "_offset": pl.Int64,
}
# The key of a table whose settings name none: the record's.
RECORD_KEY = pa.schema([("_key", pa.binary())])
# The greatest (incarnation, offset) of each edge partition.
Marks = Mapping[EdgePartition, tuple[int, int]]


@dataclass(frozen=True)
class Latest:
    """The latest row of each key.

    Args:
        folder: The table's.
        files: Its files.
        key: The columns of the key, with their types.
        index: A row for each key, with its place: the number of the file, and of the row in it.
        deleted: The latest tombstone of each record key.
    """

    folder: Folder
    files: Sequence[LiveFile]
    key: pa.Schema
    index: pl.DataFrame
    deleted: pl.DataFrame

    def marks(self, before: Marks) -> Marks:
        """The newest row of each edge partition, in these files or before."""
        newest = self._orders().unique(_PARTITION, keep="last")
        found = {EdgePartition(*row[:3]): (row[3], row[4]) for row in newest.iter_rows()}
        return {**before, **{at: max(order, before.get(at, order)) for at, order in found.items()}}

    def is_late(self, marks: Marks) -> bool:
        """Whether one of the rows is not newer than the newest of its edge partition before."""
        oldest = self._orders().unique(_PARTITION, keep="first")
        return any((row[3], row[4]) <= marks.get(EdgePartition(*row[:3]), (-1, -1)) for row in oldest.iter_rows())

    def _orders(self) -> pl.DataFrame:
        columns = _PARTITION + _ORDER
        return pl.concat([self.index.select(columns), self.deleted.select(columns)]).sort(_ORDER)

    def rows(self) -> Iterator[pa.Table]:
        """The rows that no later tombstone deletes, row group by row group.

        Raises:
            OSError: a file cannot be read.
        """
        ends = self.deleted.select(*_RECORD_KEY, *(pl.col(name).alias(f"#{name}") for name in _ORDER))
        found = self.index.join(ends, on=_RECORD_KEY, how="left", nulls_equal=True)
        (life, end_life), (at, end) = ((pl.col(name), pl.col(f"#{name}")) for name in _ORDER)
        kept = found.filter(end.is_null() | (life > end_life) | ((life == end_life) & (at > end)))
        for (number,), rows in kept.sort(_FILE, _ROW).group_by([_FILE], maintain_order=True):
            yield from _picked(self.folder, self.files[int(str(number))], rows[_ROW])


def latest(folder: Folder, files: Iterable[LiveFile], key: pa.Schema = RECORD_KEY) -> Latest:
    """Find the latest row of every key that the files have; rows in which a part of the key is null have none.

    Args:
        folder: The table's.
        files: Files of it, live or replaced.
        key: The columns of the key, with their types.

    Raises:
        OSError: a file cannot be read.
    """
    listed, names = list(files), key.names
    found = Latest(folder, listed, key, *_empty(key))
    waiting, count = list[pl.DataFrame](), 0
    for number, file in enumerate(listed):
        rows = _columns(folder, file, [*dict.fromkeys([*_RECORD_KEY, *names]), *_ORDER, "_deleted"], key)
        rows = rows.with_row_index(_ROW).with_columns(
            pl.lit(number, pl.UInt32).alias(_FILE), pl.col("_incarnation").fill_null(_UNTOLD)
        )
        there = pl.all_horizontal(pl.col(name).is_not_null() for name in names)
        is_keyed = pl.when("_deleted").then(pl.col("_key").is_not_null()).otherwise(there)
        waiting.append(rows.filter(is_keyed & pl.col("_offset").is_not_null()))
        count += len(waiting[-1])
        if count > max(_FEWEST, len(found.index)):  # each row is sorted a few times, however many files there are
            found, waiting, count = _with_newer(found, waiting), [], 0
    return _with_newer(found, waiting)


def _empty(key: pa.Schema) -> tuple[pl.DataFrame, pl.DataFrame]:
    """An index without rows, and no tombstones."""
    own = pl.from_arrow(key.empty_table())
    assert isinstance(own, pl.DataFrame)
    places = {_ROW: pl.UInt32, _FILE: pl.UInt32}
    return pl.DataFrame(schema={**_INDEX, **own.schema, **places}), pl.DataFrame(schema=_INDEX)


def _with_newer(found: Latest, more: Sequence[pl.DataFrame]) -> Latest:
    rows = [one.filter(~pl.col("_deleted")).select(found.index.columns) for one in more]
    tombstones = [one.filter("_deleted").select(found.deleted.columns) for one in more]
    index = _newest([found.index, *rows], [*_PARTITION, *found.key.names])
    return replace(found, index=index, deleted=_newest([found.deleted, *tombstones], _RECORD_KEY))


def _newest(frames: Sequence[pl.DataFrame], key: list[str]) -> pl.DataFrame:
    return pl.concat(frames).sort(_ORDER).unique(key, keep="last", maintain_order=False)


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
    names = [*_PARTITION, *newer.key.names]
    keys, deleted = newer.index.select(names), newer.deleted.select(_RECORD_KEY)
    for file in live:
        rows = _columns(folder, file, [*dict.fromkeys([*_RECORD_KEY, *names])], newer.key).with_row_index(_ROW)
        others = rows.join(keys, on=names, how="anti", nulls_equal=True, maintain_order="left")
        kept = others.join(deleted, on=_RECORD_KEY, how="anti", nulls_equal=True, maintain_order="left")[_ROW]
        if len(kept) < len(rows):
            yield file, _picked(folder, file, kept)


def _columns(folder: Folder, file: LiveFile, names: list[str], key: pa.Schema) -> pl.DataFrame:
    """Columns of a file; those of the key in its types, which the table may have widened, or got, since."""
    rows = live_rows(folder, file, names)
    wanted = pa.schema([key.field(name) if name in key.names else rows.schema.field(name) for name in names])
    columns = pl.from_arrow(conform_to_schema(rows, wanted))
    assert isinstance(columns, pl.DataFrame)
    return columns


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
