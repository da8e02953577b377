"""Puts rows in the order of a table's `cluster_by` columns, so that a reader's condition on these columns skips row
groups.

Invariant: memory holds one run, one further piece, and the run's sorted copy. Each run is sorted by itself. The rows
stay the same.
"""

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from aggregator.errors import FatalError

_MAX_NAMES = 40
RUN_BYTES = 128 * 1024 * 1024  # as Arrow counts them
# Each piece becomes a row group, so that its bounds cover only a part of the run.
_PIECE_BYTES = 16 * 1024 * 1024


def check_columns(name: str, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Refuse columns by which no rows can be put in order.

    Args:
        name: The table's.
        schema: Its columns.
        columns: `cluster_by`.

    Raises:
        FatalError: the table does not have one of them, or it has parts.
    """
    for column in columns:
        at = schema.get_field_index(column)
        if at < 0 or pa.types.is_nested(schema.field(at).type):
            why = "is not there" if at < 0 else "has parts, and no order"
            names = ", ".join(schema.names[:_MAX_NAMES])
            raise FatalError(
                f"table {name}: column {column} of `cluster_by` {why}",
                hint=f"name columns that are one value, as the table spells them: {names}",
            )


def in_runs(
    pieces: Iterable[pa.Table],
    columns: Sequence[str],
    *,
    run_bytes: int = RUN_BYTES,
    piece_bytes: int = _PIECE_BYTES,
) -> Iterator[pa.Table]:
    """Rows in sorted runs, in pieces that follow one another; without columns as they came.

    Args:
        pieces: Rows, all of one schema.
        columns: `cluster_by`; nulls come last, and rows that are alike keep their order.
        run_bytes: What is sorted together, as Arrow counts it.
        piece_bytes: Size of what is given back at a time.
    """
    if not columns:
        yield from pieces
        return
    waiting: list[pa.Table] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += piece.nbytes
        if size >= run_bytes:
            yield from _sorted(waiting, columns, piece_bytes)
            waiting, size = [], 0
    if waiting:
        yield from _sorted(waiting, columns, piece_bytes)


def _sorted(waiting: Sequence[pa.Table], columns: Sequence[str], piece_bytes: int) -> Iterator[pa.Table]:
    run = pa.concat_tables(waiting).sort_by([(column, "ascending") for column in columns])
    rows = max(1, run.num_rows * piece_bytes // max(1, run.nbytes))
    for start in range(0, run.num_rows, rows):
        yield run.slice(start, rows)
