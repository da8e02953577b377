"""A header table stores the headers of many records as columns, and behaves as a sequence of lists of (name, value).

Invariant: immutable. Each name is stored once, because a topic has a handful of names and millions of headers.
"""

from collections.abc import Collection, Sequence
from itertools import chain, pairwise
from operator import itemgetter
from typing import Self, overload

import numpy as np

from aggregator.bytes_column import BytesColumn, Flags, Integers, Packed, ends_of

Headers = Sequence[tuple[str, bytes | None]]
_NAME, _VALUE = itemgetter(0), itemgetter(1)
_NONE = np.zeros(0, np.int64)


class HeaderTable(Packed[Headers]):
    """Stores the headers of many records as columns.

    Args:
        names: Every name that may occur.
        ends: End of each record's headers, after a first 0.
        codes: Index in `names` of each header's name.
        values: Value of each header.
    """

    __slots__ = ("codes", "ends", "names", "values")

    def __init__(self, names: Sequence[str], ends: Integers, codes: Integers, values: BytesColumn) -> None:
        self.names = tuple(names)
        self.ends = ends
        self.codes = codes
        self.values = values

    @classmethod
    def of(cls, records: Sequence[Headers | None]) -> "HeaderTable":
        """The headers as a table; None has no headers, and a table is not copied."""
        if isinstance(records, HeaderTable):
            return records
        listed = [record or () for record in records]
        pairs = list(chain.from_iterable(listed))
        code_of: dict[str, int] = {}
        codes = [code_of.setdefault(name, len(code_of)) for name in map(_NAME, pairs)]
        ends = ends_of(np.fromiter(map(len, listed), np.int64, len(listed)))
        return cls(list(code_of), ends, np.array(codes, np.int64), BytesColumn.of([*map(_VALUE, pairs)]))

    @classmethod
    def empty(cls, records: int) -> Self:
        """A table of `records` records without headers."""
        return cls((), np.zeros(records + 1, np.int64), _NONE, BytesColumn.empty(0))

    @property
    def used(self) -> frozenset[str]:
        """The names that some record has as a header."""
        return frozenset(self.names[code] for code in np.flatnonzero(np.bincount(self.codes)).tolist())

    @property
    def total(self) -> int:
        """Count the headers of all records."""
        return len(self.codes)

    def sizes(self, overhead: int) -> Integers:
        """The bytes of each record's headers: names, values, and `overhead` bytes for each header."""
        of_names = np.array([len(name.encode()) + overhead for name in self.names], np.int64)
        each = self.values.sizes + (of_names[self.codes] if len(self.codes) else 0)
        return np.diff(ends_of(each)[self.ends])

    def only(self, names: Collection[str], lost: Collection[int]) -> "HeaderTable":
        """The headers of these names alone, and no headers for the records that are lost."""
        if not names or not self.names:
            return HeaderTable.empty(len(self))
        if not lost and self.used <= frozenset(names):
            return self
        stays = np.fromiter((name in names for name in self.names), bool, len(self.names))[self.codes]
        for record in lost:
            stays[self.ends[record] : self.ends[record + 1]] = False
        return self._of_those(stays)

    def _of_those(self, stays: Flags) -> "HeaderTable":
        return HeaderTable(self.names, ends_of(stays)[self.ends], self.codes[stays], self.values.where(stays))

    def tolist(self) -> list[Headers]:
        """Each record's headers as a list of name and value."""
        names = [self.names[code] for code in self.codes.tolist()]
        pairs = list(zip(names, self.values.tolist(), strict=True))
        return [pairs[start:end] for start, end in pairwise(self.ends.tolist())]

    @overload
    def __getitem__(self, place: int) -> Headers: ...

    @overload
    def __getitem__(self, place: slice) -> "HeaderTable": ...

    def __getitem__(self, place: int | slice) -> "Headers | HeaderTable":
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                raise IndexError("records of a header table follow one another")
            ends = self.ends[start : max(start, stop) + 1]
            part = slice(ends[0], ends[-1])
            return HeaderTable(self.names, ends - ends[0], self.codes[part], self.values[part])
        record = range(len(self))[place]
        return self[record : record + 1].tolist()[0]

    def __repr__(self) -> str:
        return f"<headers of {len(self)} records>"
