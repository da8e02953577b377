"""The route of a backfill says which parts of an edge's log it reads, and how a position moves from part to part.

Invariant: pure. Parts are ascending and do not overlap, so every offset has one incarnation, and positions only grow.
Records between two parts are never delivered, even if the edge sends them.
"""

import bisect
from collections.abc import Iterator, Sequence

from aggregator.coordinates import IncarnationRange, OffsetRange, Position
from aggregator.kafka.native.chunk import Chunk

# Up to so many offsets, reading and dropping records is cheaper than a seek. A reader prefetches as many anyway.
SEEK_OFFSETS = 20_000


class Route:
    """Holds the parts of one flow that a backfill reads.

    Args:
        segments: The parts, ascending; at least one.
    """

    def __init__(self, segments: Sequence[IncarnationRange]) -> None:
        self.segments = tuple(segments)
        self.end = self.segments[-1].offsets.end
        self._ends = [one.offsets.end for one in self.segments]

    def position(self, offset: int) -> Position:
        """The first position of a part at or after `offset`; behind the last part there is its end."""
        index = bisect.bisect_right(self._ends, offset)
        if index == len(self.segments):
            return Position(self.segments[-1].incarnation, self.end)
        incarnation, offsets = self.segments[index]
        return Position(incarnation, max(offset, offsets.start))

    def pieces(self, chunk: Chunk, next_offset: int) -> Iterator[tuple[Position, Chunk]]:
        """The records of a chunk that lie in parts at or after `next_offset`, with the position of the first."""
        last = chunk.offsets[-1]
        for incarnation, (start, end) in self.segments[bisect.bisect_right(self._ends, next_offset) :]:
            if start > last:
                return
            piece = chunk.within(OffsetRange(max(start, next_offset), end))
            if len(piece):
                yield Position(incarnation, piece.offsets[0]), piece
