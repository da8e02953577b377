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
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from aggregator.bytes_column import BytesColumn
from aggregator.errors import Reason
from aggregator.header_columns import Headers
from aggregator.privacy.batch.column import ResultColumn, SideValues
from aggregator.privacy.batch.strip import Batch
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.plan.side_inputs import comparable_text
from aggregator.privacy.policy.conditions import Condition

# In this order, `all` is the minimum, `any` the maximum, and `not` mirrors the value.
NO, UNDECIDED, YES = range(3)
Answers = NDArray[np.int8]
_INTEGER = re.compile(r"-?[0-9]{1,30}")
_BOOLEANS = frozenset(("true", "false"))


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
            answer = _answer_of(condition)
            found = [_of_header(condition, answer, pairs or ()) for pairs in self.headers]
            return np.where(self.is_tombstone, UNDECIDED, np.array(found, np.int8)).astype(np.int8)
        where, names = (self.edge, condition.edge) if condition.edge is not None else (self.topic, condition.topic)
        decided = UNDECIDED if where is None else YES if where in (names or ()) else NO
        return np.full(len(self.is_tombstone), decided, np.int8)

    def _field(self, path: str, condition: Condition) -> Answers:
        held = self.side_values.get(path)
        if held is None:
            return np.full(len(self.is_tombstone), UNDECIDED, np.int8)
        absent = UNDECIDED if condition.is_null is None else YES if condition.is_null else NO
        answer = _answer_of(condition)
        by_code = np.array([*map(answer, held.values), UNDECIDED, absent], np.int8)
        answers = by_code[held.codes]  # the last two are those of NOWHERE and ABSENT
        answers[self.is_unread] = UNDECIDED
        return answers


class _Constants:
    """What a condition compares with, read once for each type that a value may have.

    Args:
        texts: As the policy says them.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = {comparable_text(text) for text in texts}
        self._numbers = {int(text) for text in texts if _INTEGER.fullmatch(text)}
        self._booleans = {text == "true" for text in texts if text in _BOOLEANS}
        self._are_numbers = all(map(_INTEGER.fullmatch, texts))
        self._are_booleans = _BOOLEANS.issuperset(texts)

    def answer(self, value: Shown) -> int:
        """Whether a value is one of them; with one that is of another type that is undecided."""
        if isinstance(value, bool):
            found, are_comparable = value in self._booleans, self._are_booleans
        elif isinstance(value, int):
            found, are_comparable = value in self._numbers, self._are_numbers
        else:
            are_comparable = isinstance(value, str)
            found = isinstance(value, str) and comparable_text(value) in self._texts
        return YES if found else NO if are_comparable else UNDECIDED


def _answer_of(condition: Condition) -> Callable[[Shown], int]:
    """The condition's answer for a value that is there."""
    if condition.is_null is not None:
        found = NO if condition.is_null else YES
        return lambda _: found
    return _Constants((condition.equals,) if condition.equals is not None else condition.one_of or ()).answer


def _of_header(condition: Condition, answer: Callable[[Shown], int], headers: Headers) -> int:
    """The answer for all headers of a name; there may be several."""
    found = [value for name, value in headers if name == condition.header]
    there = [value for value in found if value is not None]
    if condition.is_null is not None:
        return YES if condition.is_null is not bool(there) else NO
    if not there:
        return UNDECIDED
    return max(_of_text(answer, value) for value in there)


def _of_text(answer: Callable[[Shown], int], value: bytes) -> int:
    try:
        return answer(value.decode())
    except UnicodeDecodeError:
        return UNDECIDED
