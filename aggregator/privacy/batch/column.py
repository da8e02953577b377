"""The result of stripping the values, or the keys, of a batch: contents, rejections and counts.

Invariant: the counts cover everything that is not rejected here. A record can still be lost because of another column;
`counts_of` returns the counts of such a record.
"""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from aggregator.bytes_column import Integers
from aggregator.privacy.batch.strip import Rejection
from aggregator.privacy.fields.leaf import Shown

# (path, operator) to the number of values that were removed or changed.
Counts = Counter[tuple[str, str]]


# Codes that stand instead of a value's number.
ABSENT, NOWHERE = -1, -2


class TooMuch(Exception):
    """The results of a batch would exceed its budget."""


def _no_codes() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class SideValues:
    """The values of one path in the records of a batch.

    Attributes:
        codes: For each row the number of its value; `ABSENT` for null or a null around it, and where the record cannot
            be read; `NOWHERE` where its schema has no such field, or may have a record, an array or a map there.
        values: The values; text of a uuid in lower case.
    """

    codes: Integers = field(default_factory=_no_codes)
    values: Sequence[Shown] = ()


def _nothing(_places: Collection[int]) -> Counts:
    return Counter()


@dataclass(slots=True)
class ResultColumn:
    """Holds the results for the values, or for the keys, of a batch.

    Attributes:
        contents: Results by place; None for nothing, and where rejected.
        rejected: Place to the reason.
        counts: The counts of all that is not rejected.
        counts_of: Returns the counts of given places; none of them rejected, and none twice.
        side_values: Path to what it held, for the fields that conditions ask for; without those that no record has.
    """

    contents: Sequence[bytes | None]
    rejected: dict[int, Rejection] = field(default_factory=dict)
    counts: Counts = field(default_factory=Counter)
    counts_of: Callable[[Collection[int]], Counts] = _nothing
    side_values: dict[str, SideValues] = field(default_factory=dict)


def joined(size: int, parts: Sequence[tuple[Integers, ResultColumn]]) -> ResultColumn:
    """Put columns of different places together.

    Args:
        size: Places in all; those that no part has are empty.
        parts: Each with the places of its rows.
    """
    whole = ResultColumn([], counts_of=lambda places: _counted(parts, places), side_values=_side_values(size, parts))
    contents: list[bytes | None] = []
    for members, part in parts:
        whole.counts.update(part.counts)
        whole.rejected.update((int(members[row]), rejection) for row, rejection in part.rejected.items())
        if len(members) == size:  # as of nearly every batch: all its records have one schema
            whole.contents = part.contents
        elif len(members):
            contents = contents or [None] * size
            for place, content in zip(members.tolist(), part.contents, strict=True):
                contents[place] = content
    whole.contents = whole.contents or contents or [None] * size
    return whole


def _side_values(size: int, parts: Sequence[tuple[Integers, ResultColumn]]) -> dict[str, SideValues]:
    """The side values of all parts, each with numbers of its own, as one."""
    found: dict[str, SideValues] = {}
    for path in sorted({path for _, part in parts for path in part.side_values}):
        codes, values = np.full(size, NOWHERE, np.int64), list[Shown]()
        for members, part in parts:
            if path in part.side_values:
                own = part.side_values[path].codes
                codes[members] = np.where(own < 0, own, own + len(values))
                values += part.side_values[path].values
        found[path] = SideValues(codes, values)
    return found


def _counted(parts: Sequence[tuple[Integers, ResultColumn]], places: Collection[int]) -> Counts:
    counts: Counts = Counter()
    for members, part in parts:
        counts.update(part.counts_of(np.flatnonzero(np.isin(members, list(places))).tolist()))
    return counts


def refused(members: Integers, rejection: Rejection) -> tuple[Integers, ResultColumn]:
    """A part in which everything is rejected for one reason."""
    return members, ResultColumn([None] * len(members), dict.fromkeys(range(len(members)), rejection))
