"""A BytesColumn holds many byte strings in one piece of memory and behaves as a sequence of `bytes | None`.

Invariant: immutable. Reading a single cell copies it. Moving all cells makes no Python object for any of them. The text
form shows nothing of the content.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any, Self, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
_POWERS_OF_TEN = 10 ** np.arange(19)
# In UTF-8, a continuation byte begins with these two bits (RFC 3629, section 3).
_CONTINUES, _CONTINUATION = np.uint8(0b1100_0000), np.uint8(0b1000_0000)
T = TypeVar("T")


def ends_of(sizes: NDArray[Any]) -> Integers:
    """The ends of adjacent things of these sizes, after a first 0."""
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


class Numbers(Sequence[int]):
    """Integers in one piece of memory, used like a list; the memory must not change any more."""

    __slots__ = ("_array",)

    def __init__(self, array: Integers) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._array, dtype, copy=copy)

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> "Numbers": ...
    def __getitem__(self, at: int | slice) -> "int | Numbers":
        return Numbers(self._array[at]) if isinstance(at, slice) else int(self._array[at])

    def __iter__(self) -> Iterator[int]:
        return iter(self._array.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment] # as of a list


class Packed(Sequence[T]):
    """Many small values in few pieces of memory, used like a list."""

    __slots__ = ()
    ends: Integers

    def tolist(self) -> list[T]:
        """The elements as a list of Python objects."""
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[T]:
        return iter(self.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and self.tolist() == list(other)

    __hash__ = None  # type: ignore[assignment] # as of a list


class BytesColumn(Packed[bytes | None]):
    """Byte strings that lie one behind the other in memory.

    Args:
        data: All bytes; not to be written to any more.
        ends: End of each cell in `data`, preceded by the start of the first one; one number more than there are cells.
        nulls: True where a cell is None, which has no bytes; None where no cell is.
    """

    __slots__ = ("data", "ends", "nulls")

    def __init__(self, data: Bytes, ends: Integers, nulls: Flags | None = None) -> None:
        self.data = data
        self.ends = ends
        self.nulls = nulls

    @classmethod
    def of(cls, values: Sequence[bytes | None]) -> "BytesColumn":
        """The values as a column; values that are a column already are not copied."""
        if isinstance(values, BytesColumn):
            return values
        nulls = None
        try:
            data = b"".join(values)  # type: ignore[arg-type] # quicker than to look for None among thousands
        except TypeError:
            nulls = np.fromiter((value is None for value in values), bool, len(values))
            filled = [value or b"" for value in values]
            values, data = filled, b"".join(filled)
        sizes = np.fromiter(map(len, values), np.int64, len(values))  # type: ignore[arg-type]
        return cls(np.frombuffer(data, np.uint8), ends_of(sizes), nulls)

    @classmethod
    def empty(cls, count: int) -> Self:
        """A column of `count` nulls."""
        return cls(np.zeros(0, np.uint8), np.zeros(count + 1, np.int64), np.ones(count, bool))

    @classmethod
    def concat(cls, parts: Sequence["BytesColumn"]) -> "BytesColumn":
        """Several columns as one; none of them has a None."""
        if len(parts) == 1:
            return parts[0]
        datas = [part.data[part.ends[0] : part.ends[-1]] for part in parts]
        sizes = np.concatenate([np.zeros(0, np.int64), *(part.sizes for part in parts)])
        return BytesColumn(np.concatenate([np.zeros(0, np.uint8), *datas]), ends_of(sizes))

    @property
    def sizes(self) -> Integers:
        """The number of bytes of each cell; 0 for a null."""
        return np.diff(self.ends)

    @property
    def firsts(self) -> Bytes:
        """The first byte of each cell that is not empty."""
        return self.data[self.ends[:-1][self.sizes > 0]]

    def are_text(self) -> bool:
        """Whether every cell is UTF-8: all of them in a row are, and none begins within a character."""
        try:
            self.data[self.ends[0] : self.ends[-1]].tobytes().decode()
        except UnicodeDecodeError:
            return False
        return not bool((self.firsts & _CONTINUES == _CONTINUATION).any())

    @classmethod
    def numbered(cls, prefix: str, numbers: Sequence[int], suffix: str) -> "BytesColumn":
        """Each number, not negative, in decimal digits between two texts; a column of digits at a time."""
        before, after = (np.frombuffer(text.encode(), np.uint8) for text in (prefix, suffix))
        column = np.asarray(numbers, np.int64)
        digits = np.searchsorted(_POWERS_OF_TEN[1:], column, side="right") + 1
        turns = [0, *(np.flatnonzero(np.diff(digits)) + 1).tolist(), len(column)]
        rows = []
        for start, end in pairwise(turns):
            row = np.empty((end - start, len(before) + int(digits[start]) + len(after)), np.uint8)
            row[:, : len(before)], row[:, row.shape[1] - len(after) :] = before, after
            last, rest = row.shape[1] - len(after) - 1, column[start:end]
            for place in range(digits[start]):
                left = rest // 10  # `%` would divide a second time
                row[:, last - place], rest = rest - 10 * left + ord("0"), left
            rows.append(row.reshape(-1))
        data = rows[0] if len(rows) == 1 else np.concatenate(rows)
        return cls(data, ends_of(digits + (len(before) + len(after))))

    def without(self, places: Collection[int]) -> "BytesColumn":
        """The column with None at these places, and without the bytes that were there."""
        if not places:
            return self
        nulls = np.zeros(len(self), bool) if self.nulls is None else self.nulls.copy()
        nulls[np.fromiter(places, np.int64, len(places))] = True
        return BytesColumn(self._bytes_of(~nulls), ends_of(np.where(nulls, 0, self.sizes)), nulls)

    def where(self, stays: Flags) -> "BytesColumn":
        """A column of the cells that are marked True."""
        nulls = None if self.nulls is None else self.nulls[stays]
        return BytesColumn(self._bytes_of(stays), ends_of(self.sizes[stays]), nulls)

    def _bytes_of(self, stays: Flags) -> Bytes:
        return self.data[self.ends[0] : self.ends[-1]][np.repeat(stays, self.sizes)]

    def tolist(self) -> list[bytes | None]:
        """Each cell as an object; one call for all cells is three times as fast as slices."""
        valid = None if self.nulls is None else pa.py_buffer(np.packbits(~self.nulls, bitorder="little"))
        buffers = [valid, pa.py_buffer(self.ends), pa.py_buffer(self.data)]
        cut = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(self), buffers)
        listed: list[bytes | None] = cut.to_pylist()
        return listed

    def count(self, value: Any) -> int:
        """How often a value is among the cells."""
        if value is None:
            return 0 if self.nulls is None else int(np.count_nonzero(self.nulls))
        return self.tolist().count(value)

    @overload
    def __getitem__(self, place: int) -> bytes | None: ...

    @overload
    def __getitem__(self, place: slice) -> "BytesColumn": ...

    def __getitem__(self, place: int | slice) -> "bytes | BytesColumn | None":
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return BytesColumn.of(self.tolist()[place])
            stop = max(start, stop)
            return BytesColumn(
                self.data, self.ends[start : stop + 1], None if self.nulls is None else self.nulls[start:stop]
            )
        place = range(len(self))[place]
        if self.nulls is not None and self.nulls[place]:
            return None
        return self.data[self.ends[place] : self.ends[place + 1]].tobytes()

    def __repr__(self) -> str:
        return f"<{len(self)} cells, {int(self.ends[-1] - self.ends[0])} bytes>"
