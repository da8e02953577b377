"""Decides which Parquet columns get a dictionary: those whose values repeat, as a trial on the first rows of a file
shows.

Invariant: the choice affects size and speed, but not content. A dictionary of values that do not repeat (ids, tokens,
offsets) costs a third of the writing and a fifth of the size. pyarrow's default is a dictionary for every column.
"""

import io

import pyarrow as pa
import pyarrow.parquet as pq

COMPRESSION = {"compression": "zstd", "compression_level": 1}
_SAMPLE_ROWS = 4_096
_ENOUGH_ROWS = 5 * _SAMPLE_ROWS  # a smaller file is written before a sample could show anything


def dictionary_columns(rows: pa.Table) -> list[str] | bool:
    """The value for `use_dictionary` of a Parquet writer: paths of columns, or True for pyarrow's own choice.

    Args:
        rows: The first row group of a file.
    """
    if rows.num_rows < _ENOUGH_ROWS:
        return True
    sample = rows.slice(0, _SAMPLE_ROWS)
    repeated, plain = _sizes(sample, use_dictionary=True), _sizes(sample, use_dictionary=False)
    return [path for path, size in repeated.items() if size < plain[path]]


def _sizes(rows: pa.Table, *, use_dictionary: bool) -> dict[str, int]:
    """The compressed size of each column, in bytes."""
    sink = io.BytesIO()
    pq.write_table(rows, sink, use_dictionary=use_dictionary, **COMPRESSION)
    group = pq.read_metadata(sink).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return {column.path_in_schema: column.total_compressed_size for column in columns}
