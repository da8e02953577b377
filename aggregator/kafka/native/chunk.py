"""A chunk holds the records of one partition from one poll, on their way from the reader through strip to the writer.

Invariant: records are in log order. All columns have the same length. A column may be rows of bytes that are never
split into Python objects.
"""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass

from aggregator.bytes_column import BytesColumn
from aggregator.coordinates import OffsetRange
from aggregator.header_columns import Headers


@dataclass(slots=True)
class Chunk:
    """Records of one partition in log order, as parallel sequences of equal length.

    `leader_epoch` is that of the last record in the poll, and no record of the chunk exceeds it. The edge raises the
    epoch whenever a log may have been cut.
    """

    topic: str
    partition: int
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Headers | None]
    timestamps_ms: Sequence[int]
    offsets: Sequence[int]
    leader_epoch: int | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size(self) -> int:
        """Count the bytes of all keys and values."""
        columns = (BytesColumn.of(self.keys), BytesColumn.of(self.values))
        return sum(int(column.ends[-1] - column.ends[0]) for column in columns)

    def within(self, offsets: OffsetRange) -> "Chunk":
        """The records within an offset range."""
        part = slice(bisect.bisect_left(self.offsets, offsets.start), bisect.bisect_left(self.offsets, offsets.end))
        return Chunk(
            self.topic,
            self.partition,
            self.keys[part],
            self.values[part],
            self.headers[part],
            self.timestamps_ms[part],
            self.offsets[part],
            self.leader_epoch,
        )

    def before(self, place: int) -> "Chunk":
        """The records before a place in the chunk."""
        return self.within(OffsetRange(self.offsets[0], self.offsets[place]))

    def halves(self) -> tuple["Chunk", "Chunk"]:
        """Split the records into two chunks, in order."""
        start, middle, end = self.offsets[0], self.offsets[len(self) // 2], self.offsets[-1] + 1
        return self.within(OffsetRange(start, middle)), self.within(OffsetRange(middle, end))
