"""Where a table's rows come from: incarnation and offset of every row of one edge partition, from the live files.

Invariant: reads the files that the given version names, never the folder; a file that is gone is an error, not a hole.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from aggregator.coordinates import EdgePartition
from aggregator.errors import Unreachable
from aggregator.lake.folder import Folder

Numbers = npt.NDArray[np.int64]
_ORIGIN = ["_edge", "_topic", "_partition", "_incarnation", "_offset"]


def row_origins(folder: Folder, files: Sequence[str], source: EdgePartition) -> Iterator[tuple[Numbers, Numbers]]:
    """Incarnations and offsets of the rows that came from one edge partition, file by file.

    Args:
        folder: The table's.
        files: Its live files, relative to the folder.
        source: Which edge partition.

    Raises:
        Unreachable: a file can not be read.
    """
    edge, topic, partition = source
    wanted = (pc.field("_edge") == edge) & (pc.field("_topic") == topic) & (pc.field("_partition") == partition)
    for file in files:
        try:
            rows = folder.rows(file, _ORIGIN, wanted)
        except (OSError, pa.ArrowException) as error:
            raise Unreachable(
                f"{folder}/{file} can not be read ({type(error).__name__})",
                hint="was the table compacted and vacuumed meanwhile? run the audit again",
            ) from None
        yield rows["_incarnation"].cast(pa.int64()).to_numpy(), rows["_offset"].to_numpy()
