"""Groups the values or keys of a batch by their schema id.

Invariant: only wire format 0 counts, exactly as `schema.wire.split` reads it. Other values are in no group.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aggregator.bytes_column import Bytes, BytesColumn, Integers
from aggregator.schema.wire import HEADER_BYTES


class Groups(NamedTuple):
    """Places of a batch by what their first bytes say.

    Attributes:
        members: Schema id to places, in the order of the batch; ids in the order of their first record.
        unframed: Places of what does not begin with wire format 0.
    """

    members: dict[int, Integers]
    unframed: Integers


class FramedValues:
    """Lays the values of a batch in one piece of memory.

    Attributes:
        data: All bytes; not to be written to.
        starts: The start of each value in the data.
        ends: The end of each value; None has no bytes, but is not an empty value.
        made: Bytes that were made of them so far.
    """

    def __init__(self, values: Sequence[bytes | None]) -> None:
        cells = BytesColumn.of(values)
        self._nulls = cells.nulls
        self.starts, self.ends = cells.ends[:-1], cells.ends[1:]
        self.data: Bytes = cells.data
        self.made = 0

    def __len__(self) -> int:
        return len(self.starts)

    def groups(self) -> Groups:
        """Group the places of the values by schema id."""
        is_framed = self.ends - self.starts >= HEADER_BYTES
        is_framed[is_framed] = self.data[self.starts[is_framed]] == 0
        framed = np.flatnonzero(is_framed)
        unframed = np.flatnonzero(~is_framed if self._nulls is None else ~(is_framed | self._nulls))
        at = self.starts[framed]
        ids = np.zeros(len(framed), np.int64)
        for place in range(1, HEADER_BYTES):
            ids = ids << 8 | self.data[at + place]
        if len(ids) and (ids == ids[0]).all():
            return Groups({int(ids[0]): framed}, unframed)
        found, first = np.unique(ids, return_index=True)
        return Groups({int(found[n]): framed[ids == found[n]] for n in np.argsort(first)}, unframed)
