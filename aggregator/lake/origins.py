"""Where a table's rows come from: incarnation and offset of every row of one edge partition, from the live files.

Invariant: reads the files that the given version names, never the folder; a file that is gone is an error, not a hole.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from aggregator.coordinates import EdgePartition
from aggregator.errors import Unreachable

Numbers = npt.NDArray[np.int64]


def row_origins(folder: Path, files: Sequence[str], source: EdgePartition) -> Iterator[tuple[Numbers, Numbers]]:
    """Incarnations and offsets of the rows that came from one edge partition, file by file.

    Args:
        folder: The table's.
        files: Its live files, relative to the folder.
        source: Which edge partition.

    Raises:
        Unreachable: a file can not be read.
    """
    edge, topic, partition = source
    wanted = (pl.col("_edge") == edge) & (pl.col("_topic") == topic) & (pl.col("_partition") == partition)
    for file in files:
        try:
            rows = pl.scan_parquet(folder / file).filter(wanted).select("_incarnation", "_offset").collect()
        except (OSError, pl.exceptions.PolarsError) as error:
            raise Unreachable(
                f"{folder / file} can not be read ({type(error).__name__})",
                hint="was the table compacted and vacuumed meanwhile? run the audit again",
            ) from None
        yield rows["_incarnation"].cast(pl.Int64).to_numpy(), rows["_offset"].to_numpy()
