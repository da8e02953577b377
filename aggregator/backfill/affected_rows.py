"""Decides which rows of a table a restate replaces: by their origins, never by their contents.

Invariant: pure. A row is affected if its edge partition, incarnation and offset lie in the plan. The row that replaces
it has the very same origin. So a table holds each origin as often as before or less often. The exception is tombstones
under further keys.
"""

from collections.abc import Iterable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from aggregator.backfill.plan import PartitionPlan
from aggregator.coordinates import EdgePartition, IncarnationRange

Marks = NDArray[np.bool_]
Numbers = NDArray[np.int64]
# The origins of a table's rows, by flow: as `numbered` makes them, ascending and without duplicates.
Origins = Mapping[EdgePartition, Numbers]
ORIGIN_COLUMNS = ("_edge", "_topic", "_partition", "_incarnation", "_offset")
# Offsets of one incarnation stay below this number: a broker would need ages to reach it.
INCARNATION = 1 << 44


class Affected:
    """Tells by their origins which rows the partitions of a plan replace.

    Args:
        partitions: The plan's partitions with the segments that they write.
    """

    def __init__(self, partitions: Iterable[PartitionPlan]) -> None:
        self._bounds = {one.source: _bounds(one.segments) for one in partitions if one.segments}

    def marks(self, rows: pa.Table) -> Marks:
        """A boolean mask of the rows whose origins are affected."""
        found = np.zeros(rows.num_rows, np.bool_)
        for source, place in self._places(rows):
            starts, ends = self._bounds[source]
            numbers = numbered(rows)[place]
            index = np.searchsorted(starts, numbers, "right") - 1
            found[place] = (index >= 0) & (numbers < ends[np.maximum(index, 0)])
        return found

    def origins(self, rows: pa.Table) -> dict[EdgePartition, Numbers]:
        """Origins of the affected rows, by flow."""
        hit = rows.filter(pa.array(self.marks(rows)))
        return {source: numbered(hit)[place] for source, place in self._places(hit)}

    def of(self, rows: pa.Table, known: Origins) -> Marks:
        """Which rows have one of the known origins."""
        found = np.zeros(rows.num_rows, np.bool_)
        for source, place in self._places(rows):
            found[place] = np.isin(numbered(rows)[place], known.get(source, np.zeros(0, np.int64)))
        return found

    def _places(self, rows: pa.Table) -> Iterable[tuple[EdgePartition, Numbers]]:
        """Indices of the rows of each flow of the plan."""
        for source in self._bounds:
            here = pc.and_(
                pc.and_(pc.equal(rows["_edge"], source.edge), pc.equal(rows["_topic"], source.topic)),
                pc.equal(rows["_partition"], source.partition),
            )
            place = np.flatnonzero(here.to_numpy(zero_copy_only=False))
            if len(place):
                yield source, place


def numbered(rows: pa.Table) -> Numbers:
    """Incarnation and offset of each row as one number, in the order of positions."""
    incarnations = rows["_incarnation"].to_numpy().astype(np.int64)
    offsets = rows["_offset"].to_numpy()
    return np.asarray(incarnations * INCARNATION + offsets, np.int64)


def _bounds(segments: Iterable[IncarnationRange]) -> tuple[Numbers, Numbers]:
    pairs = sorted((at * INCARNATION + start, at * INCARNATION + end) for at, (start, end) in segments)
    return np.array([start for start, _ in pairs], np.int64), np.array([end for _, end in pairs], np.int64)
