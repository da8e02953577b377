"""Decides which records of a batch a policy's `drop_record` leaves out.

A condition holds, does not hold, or cannot be decided. With a value that is null or absent, only `is_null` can be
decided. Four things leave a condition undecided: a field that the schema does not have, a value of another type than
the constant's, a header that is not text, and an unknown edge. `all`, `any` and `not` are Kleene's: an undecided part
matters only where it could change the answer.

Invariants: a record for which a condition holds is suppressed, whatever else is wrong with it. If no condition holds
and some cannot be decided, the record is refused and not delivered. A tombstone has no fields, and its headers are
those of the client that deletes. Conditions about either are undecided for it, and it passes, because the deletion must
reach central. Only its edge and topic can leave it out.
"""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.bytes_column import BytesColumn
from aggregator.errors import Reason
from aggregator.header_columns import Headers
from aggregator.privacy.batch.column import ResultColumn, SideValues
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.policy.conditions import Condition

# In this order, `all` is the minimum, `any` the maximum, and `not` mirrors the value.
NO, UNDECIDED, YES = range(3)
Answers = NDArray[np.int8]
_INTEGER = re.compile(r"-?[0-9]{1,30}")


class Verdicts(NamedTuple):
    """Places of a batch: those to leave out, and those for which that cannot be decided."""

    suppressed: frozenset[int]
    undecided: frozenset[int]


class Suppression:
    """The conditions of one topic at one edge.

    Args:
        conditions: Any of them suffices.
        edge: Name of the edge; None if nobody said.
        topic: Edge topic.
    """

    def __init__(self, conditions: Sequence[Condition], edge: str | None, topic: str) -> None:
        self._conditions = conditions
        self._edge = edge
        self._topic = topic

    def verdicts(self, batch: Batch, values: ResultColumn) -> Verdicts:
        """Judge for every record whether a condition leaves it out.

        Args:
            batch: The batch as it was read.
            values: What became of its values, with what they held.
        """
        if not self._conditions:
            return Verdicts(frozenset(), frozenset())
        nulls = BytesColumn.of(batch.values).nulls
        is_tombstone = np.zeros(len(batch.values), bool) if nulls is None else nulls
        is_unread = is_tombstone.copy()
        is_unread[[place for place, one in values.rejected.items() if one.reason is not Reason.OPERATOR_FAILED]] = True
        asked = _Asked(is_tombstone, is_unread, values.side_values, batch.headers, self._edge, self._topic)
        answers = np.max([asked.answers(condition) for condition in self._conditions], axis=0)
        is_open = (answers == UNDECIDED) & ~is_unread
        return Verdicts(frozenset(np.flatnonzero(answers == YES).tolist()), frozenset(np.flatnonzero(is_open).tolist()))


class _Asked(NamedTuple):
    """One batch, with the values that conditions ask for."""

    is_tombstone: NDArray[np.bool_]
    is_unread: NDArray[np.bool_]
    side_values: Mapping[str, SideValues]
    headers: Sequence[Headers | None]
    edge: str | None
    topic: str

    def answers(self, condition: Condition) -> Answers:
        """The condition's answer for each record."""
        inner = [self.answers(item) for item in condition.inner]
        if condition.every is not None:
            return np.min(inner, axis=0)  # type: ignore[no-any-return]
        if condition.some is not None:
            return np.max(inner, axis=0)  # type: ignore[no-any-return]
        if condition.negated is not None:
            return YES - inner[0]
        if condition.field is not None:
            return self._field(condition.field, condition)
        if condition.header is not None:
            found = [_of_header(condition, pairs or ()) for pairs in self.headers]
            return np.where(self.is_tombstone, UNDECIDED, np.array(found, np.int8)).astype(np.int8)
        where, names = (self.edge, condition.edge) if condition.edge is not None else (self.topic, condition.topic)
        answer = UNDECIDED if where is None else YES if where in (names or ()) else NO
        return np.full(len(self.is_tombstone), answer, np.int8)

    def _field(self, path: str, condition: Condition) -> Answers:
        held = self.side_values.get(path)
        if held is None:
            return np.full(len(self.is_tombstone), UNDECIDED, np.int8)
        absent = UNDECIDED if condition.is_null is None else YES if condition.is_null else NO
        by_code = np.array([*(_of_value(condition, value) for value in held.values), UNDECIDED, absent], np.int8)
        answers = by_code[held.codes]  # the last two are those of NOWHERE and ABSENT
        answers[self.is_unread] = UNDECIDED
        return answers


def _of_value(condition: Condition, value: Shown) -> int:
    """The answer for a value that is there."""
    if condition.is_null is not None:
        return NO if condition.is_null else YES
    constants = (condition.equals,) if condition.equals is not None else condition.one_of or ()
    return max(_is_same(value, constant) for constant in constants)


def _is_same(value: Shown, constant: str) -> int:
    """Whether a value is what the policy wrote, read as the value's type."""
    if isinstance(value, bool):
        is_same = constant == str(value).lower() if constant in ("true", "false") else None
    elif isinstance(value, int):
        is_same = int(constant) == value if _INTEGER.fullmatch(constant) else None
    else:
        is_same = constant == value if isinstance(value, str) else None
    return UNDECIDED if is_same is None else YES if is_same else NO


def _of_header(condition: Condition, headers: Headers) -> int:
    """The answer for all headers of a name; there may be several."""
    found = [value for name, value in headers if name == condition.header]
    there = [value for value in found if value is not None]
    if condition.is_null is not None:
        return YES if condition.is_null is not bool(there) else NO
    if not there:
        return UNDECIDED
    return max(_of_text(condition, value) for value in there)


def _of_text(condition: Condition, value: bytes) -> int:
    try:
        return _of_value(condition, value.decode())
    except UnicodeDecodeError:
        return UNDECIDED
