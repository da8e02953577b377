"""A batch's values or keys as one row of bytes, and which of them carry which schema id.

Invariant: wire format 0 only, exactly as `schema.wire.split` has it; what is not framed so is in no group.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from aggregator.schema.wire import HEADER_BYTES

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Groups(NamedTuple):
    """Places of a batch by what their first bytes say.

    Attributes:
        members: Schema id to places, in the order of the batch; ids in the order of their first record.
        unframed: Places of what does not begin with wire format 0.
    """

    members: dict[int, Integers]
    unframed: Integers


class Pile:
    """Values in one row.

    Attributes:
        data: All bytes; not to be written to.
        starts: Where each value begins in them.
        ends: Where it ends; None has no bytes, but is not an empty value.
    """

    def __init__(self, values: Sequence[bytes | None]) -> None:
        self._nulls = None
        try:
            data = b"".join(values)  # type: ignore[arg-type] # quicker than to look for None among thousands
        except TypeError:
            self._nulls = np.fromiter((value is None for value in values), bool, len(values))
            filled = [value or b"" for value in values]
            values, data = filled, b"".join(filled)
        ends = np.zeros(len(values) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, values), np.int64, len(values)), out=ends[1:])  # type: ignore[arg-type]
        self.starts, self.ends = ends[:-1], ends[1:]
        self.data: Bytes = np.frombuffer(data, np.uint8)

    def __len__(self) -> int:
        return len(self.starts)

    def body(self, place: int) -> bytes:
        """The Avro body of a framed value."""
        return self.data[self.starts[place] + HEADER_BYTES : self.ends[place]].tobytes()

    def groups(self) -> Groups:
        """Which places belong together."""
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


def pieces(data: Bytes, ends: Integers, missing: Integers | None = None) -> list[bytes | None]:
    """Cut a row of bytes; one call for all of it is three times as fast as slices."""
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    cut: list[bytes | None] = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers).to_pylist()
    return cut
