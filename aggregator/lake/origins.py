"""Reads where a table's rows come from: the incarnation and the offset of every row of one edge partition, from the
live files.

A record may have several tombstones, one for each version of its key. They share incarnation and offset, and their keys
tell them apart.

Invariant: only files that the given version names are read; the folder is not listed. A file that is gone raises an
error and is not skipped.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from aggregator.coordinates import EdgePartition
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.live_rows import live_rows_where
from aggregator.lake.tables.port import LiveFile
from aggregator.lake.tables.storage_errors import storage_errors

Numbers = NDArray[np.int64]
Keys = NDArray[np.uint64]
_ORIGIN = ["_edge", "_topic", "_partition", "_incarnation", "_offset"]
_DELETED = ["_deleted", "_key"]


class RowOrigins(NamedTuple):
    """Rows of one edge partition.

    Attributes:
        incarnations, offsets: Their origins.
        deleted: Number that tells the keys of tombstones apart; 0 for a row that is no tombstone.
    """

    incarnations: Numbers
    offsets: Numbers
    deleted: Keys


def row_origins(folder: Folder, files: Sequence[LiveFile], source: EdgePartition) -> Iterator[RowOrigins]:
    """The rows that came from one edge partition, file by file.

    Args:
        folder: The table's folder.
        files: Its live files.
        source: The edge partition.

    Raises:
        TableUnavailable: a file cannot be read.
    """
    wanted: dict[str, str | int] = {"_edge": source.edge, "_topic": source.topic, "_partition": source.partition}
    for file in files:
        hint = "was the table compacted and vacuumed meanwhile? run the audit again"
        with storage_errors(f"{folder}/{file.path}", hint=hint, parquet=True):
            rows = live_rows_where(folder, file, [*_ORIGIN, *_DELETED], wanted)
        deleted = np.where(rows["_deleted"].to_numpy(), pl.Series(rows["_key"]).hash().to_numpy() | np.uint64(1), 0)
        yield RowOrigins(
            rows["_incarnation"].cast(pa.int64()).to_numpy(), rows["_offset"].to_numpy(), deleted.astype(np.uint64)
        )
