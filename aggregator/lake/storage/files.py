"""Stages Parquet files in a table's folder, for a task. A staged file is complete and on disk, and belongs to no table
until a commit names it.

Invariant: a file name is used only once. A file is fsync'd before any other process learns of it. Memory holds one row
group and what is given at a time. A row group has three times its bound of bytes at most, or a single row beside it, so
that every reader of a row group is bounded too. Statistics have Delta's form, and hold nothing that the file does not.
"""

import contextlib
import json
import uuid
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from aggregator.lake.columns.columns import (
    DAY_COLUMN,
    FIXED_COLUMNS,
    TypePromotion,
    conform_to_schema,
    merge_schemas,
    no_promotion,
)
from aggregator.lake.columns.out_of_range import OUT_OF_RANGE_COLUMN
from aggregator.lake.columns.partitioning import PartitionValues, split_by_partition, with_day
from aggregator.lake.parquet.encoding import COMPRESSION, dictionary_columns
from aggregator.lake.parquet.statistics import Path, statistics, with_nan
from aggregator.lake.storage.folder import Folder
from aggregator.lake.storage.staging import STAGED_PREFIX, STAGED_SUFFIX, StagingLease, discard

_FILE_BYTES = 256 * 1024 * 1024
_GROUP_BYTES = 16 * 1024 * 1024  # as Arrow counts them
_OPEN_FILES = 32


class StagedFile(NamedTuple):
    """A file that a commit may name.

    Attributes:
        path: Relative to the table's folder.
        size: Bytes.
        rows: Records, tombstones included.
        stats: Delta's statistics as JSON.
        schema: Arrow schema, serialised.
        partition: Columns that the table is divided by, and their value in this file as text.
    """

    path: str
    size: int
    rows: int
    stats: str
    schema: bytes
    partition: PartitionValues = ()


class _Open(NamedTuple):
    name: str
    sink: Any
    writer: pq.ParquetWriter
    footers: list[Any]
    nan: set[Path]


class StagingWriter:
    """Takes tables of rows and writes them into files of one schema each.

    Args:
        folder: The table's folder.
        schema: The table's columns; None before the first commit.
        promotes: Types that its columns can change to.
        partition_columns: Columns that the table is divided by.
        file_bytes: A file is ended beyond this size.
        group_bytes: Rows wait in memory up to this size, as Arrow counts them, and become one row group.
        lease: Of a job that may take longer than files wait for their commit; renewed with every row group.
    """

    def __init__(
        self,
        folder: Folder,
        schema: pa.Schema | None,
        *,
        promotes: TypePromotion = no_promotion,
        partition_columns: tuple[str, ...] = (),
        file_bytes: int = _FILE_BYTES,
        group_bytes: int = _GROUP_BYTES,
        lease: StagingLease | None = None,
    ) -> None:
        self._folder = folder
        self._schema = schema or FIXED_COLUMNS
        self._promotes = promotes
        self._partition_columns = partition_columns
        self._file_bytes = file_bytes
        self._group_bytes = group_bytes
        self._lease = lease
        self._open: dict[PartitionValues, _Open] = {}
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._staged: list[StagedFile] = []

    def add(self, rows: pa.Table) -> None:
        """Take rows; a row group is written when enough are waiting, so that many small partitions share one.

        Raises:
            HoldError: the rows do not fit the table's columns.
            OSError: the folder cannot be written.
        """
        if DAY_COLUMN in self._partition_columns:
            rows = with_day(rows)
        wanted = merge_schemas(self._schema, rows.schema, self._promotes)
        if wanted != self._schema:
            self._finish()
            self._schema = wanted
        for piece in _pieces(conform_to_schema(rows, wanted), self._group_bytes):
            self._waiting.append(piece)
            self._waiting_bytes += piece.nbytes
            if self._waiting_bytes >= self._group_bytes:
                self.end_group()

    def end_group(self) -> None:
        """Write what waits: the rows so far and those that follow are in different row groups.

        Raises:
            OSError: the folder cannot be written.
        """
        if not self._waiting:
            return
        if self._lease is not None:
            self._lease.renew()
        rows = pa.concat_tables(self._waiting)
        self._waiting, self._waiting_bytes = [], 0
        for part, part_rows in split_by_partition(rows, self._partition_columns):
            file = self._file(part, part_rows)
            file.nan.update(with_nan(part_rows))
            file.writer.write_table(part_rows, row_group_size=max(1, part_rows.num_rows))

    def _file(self, part: PartitionValues, rows: pa.Table) -> _Open:
        """The open file of a part, which `rows` begin; a full one is ended, and the oldest where too many are open."""
        found = self._open.get(part)
        if found is not None and found.sink.tell() > self._file_bytes:
            self._end_file(part)
        elif found is not None:
            return found
        if len(self._open) >= _OPEN_FILES:
            self._end_file(next(iter(self._open)))
        name = f"{STAGED_PREFIX}{uuid.uuid4().hex}{STAGED_SUFFIX}"
        sink = self._folder.create(name)
        footers: list[Any] = []
        writer = pq.ParquetWriter(
            sink,
            self._schema,
            use_dictionary=dictionary_columns(rows),
            write_statistics=True,
            metadata_collector=footers,
            **COMPRESSION,
        )
        self._open[part] = _Open(name, sink, writer, footers, set())
        return self._open[part]

    def close(self) -> tuple[StagedFile, ...]:
        """Finish the open files and return what was staged.

        Raises:
            OSError: the folder cannot be written.
        """
        self._finish()
        return tuple(self._staged)

    def abandon(self) -> None:
        """Remove everything that was staged; what cannot be removed now is cleaned up by age later."""
        for file in self._open.values():
            for end in (file.writer.close, file.sink.close):
                with contextlib.suppress(OSError):  # the disk is full, or gone
                    end()
        discard(self._folder, [*(one.name for one in self._open.values()), *(file.path for file in self._staged)])
        self._open.clear()

    def _finish(self) -> None:
        self.end_group()
        for part in list(self._open):
            self._end_file(part)

    def _end_file(self, part: PartitionValues) -> None:
        name, sink, writer, footers, nan = self._open[part]
        writer.close()
        size = sink.tell()
        sink.close()
        del self._open[part]
        self._folder.sync(name)
        schema = self._schema.serialize().to_pybytes()
        self._staged.append(StagedFile(name, size, footers[0].num_rows, statistics(footers[0], nan), schema, part))


def _pieces(rows: pa.Table, most_bytes: int) -> Iterator[pa.Table]:
    """Rows in halves, and halves of these, until each has twice so many bytes at most, or is one row."""
    if rows.nbytes <= 2 * most_bytes or rows.num_rows <= 1:
        yield rows
        return
    half = rows.num_rows // 2
    for start, end in ((0, half), (half, rows.num_rows)):
        yield from _pieces(rows.slice(start, end - start), most_bytes)


def out_of_range(file: StagedFile) -> int:
    """Count the file's records with a number that their column cannot hold, by its statistics."""
    nulls = json.loads(file.stats).get("nullCount", {}).get(OUT_OF_RANGE_COLUMN)
    return 0 if nulls is None else file.rows - int(nulls)
