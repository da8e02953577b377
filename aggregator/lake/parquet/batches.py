"""Reads a Parquet file in batches of rows.

Invariant: no batch crosses a row group. The writer bounds a row group by the bytes of its values
(`lake/storage/files.py`). A file of a few kilobytes can hold gigabytes of equal values, so a number of rows is no
bound.
"""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

_MAX_ROWS = 4096


def batches(file: pq.ParquetFile) -> Iterator[pa.Table]:
    """A file's rows, in the file's order, in batches of at most 4,096.

    Raises:
        OSError: it cannot be read.
    """
    for group in range(file.num_row_groups):
        for batch in file.iter_batches(_MAX_ROWS, row_groups=[group]):
            yield pa.Table.from_batches([batch])
