"""Remembers operators' results across batches, so that the machine finds them again without Python.

Invariant: a result that is found was made by the same operator from exactly these bytes, or from this number. A value
for which an operator failed is computed again. The memory never exceeds its budget, which all topics of a slot share:
when the budget is used up, it forgets everything.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import types

from aggregator.bytes_column import Bytes, Integers
from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, Number, compiled, inlined
from aggregator.privacy.batch.distinct import LONGEST_BYTES, OperatorCache
from aggregator.privacy.kernel.encoder import copied
from aggregator.privacy.kernel.intrinsics import WORD, fetch, put_word, word
from aggregator.privacy.kernel.machine import SPAN
from aggregator.privacy.kernel.output import FAILED, FORM, LENGTH, NUMERIC, RESULT, START
from aggregator.privacy.kernel.spans import LONGEST_SEARCH, are_same, hashed

# This budget holds half a million identifiers with tokens of common lengths.
BUDGET_BYTES = 64 * 1024 * 1024
NOTHING = -1
# An entry lies in one place, because each place costs a trip to memory: its hash, its kind, its value and its result,
# these two as bytes or as one word. The kind is operator, length of the value (`_IS_NUMBER` for a number), form and
# length of the result, so many bits each.
_VALUE = 2 * WORD
_LENGTH_BITS, _FORM_BITS = 16, 4
_IS_NUMBER = (1 << _LENGTH_BITS) - 1
# A place in the table holds the upper part of a hash, and where an entry begins.
_WHERE_BITS = 32
_WHERE = (1 << _WHERE_BITS) - 1
# Spans that are looked for at once; how many results ahead one is fetched; bytes that a processor fetches.
_AT_ONCE, _AHEAD, _LINE = 64, 8, 64
_FEWEST_BYTES, _FEWEST_PLACES = 64 * 1024, 2048
# The most entries per place of the table, so that a search stays short.
_FULL = 0.5


class Recalled(NamedTuple):
    """The remembered results for a batch.

    Attributes:
        found: For each span where its entry begins; `NOTHING` where there is none.
        rows: The results of the others, in their order, `RESULT` integers each.
        made: Their bytes.
    """

    found: Integers
    rows: Integers
    made: Bytes


@inlined
def _kind(operator: Number, length: Number) -> Number:
    """Operator and length of a value, as the kind of an entry begins."""
    return operator << _LENGTH_BITS | (length if length >= 0 else np.int64(_IS_NUMBER))


@inlined
def _value_size(kind: Number) -> Number:
    """How many bytes an entry's value takes."""
    length = kind >> (_LENGTH_BITS + _FORM_BITS) & np.int64(_IS_NUMBER)
    return np.int64(WORD) if length == _IS_NUMBER else length


@inlined
def _is_entry(data: Bytes, start: Number, length: Number, kept: Bytes, at: Number) -> bool:
    """Whether an entry of the same operator and length is of this value."""
    if length < 0:
        return bool(np.int64(word(kept, at)) == start)
    return are_same(data, start, kept, at, length)


@inlined
def _first(mark: Number, table: Integers) -> Number:
    """The place in the table where the search for a hash begins."""
    return np.uint64(mark) >> np.uint64(20) & np.uint64(table.size - 1)


@inlined
def _candidate(mark: Number, table: Integers) -> Number:
    """The entry that bears this hash's upper part, as far as one must search for it."""
    place = _first(mark, table)
    for _ in range(LONGEST_SEARCH):
        if table[place] == NOTHING:
            break
        if (table[place] ^ mark) >> _WHERE_BITS == 0:
            return table[place] & _WHERE
        place = (place + np.uint64(1)) & np.uint64(table.size - 1)
    return np.int64(NOTHING)


@compiled(types.UniTuple(NUMBER, 2), BYTES, INTEGERS, INTEGERS, INTEGERS, INTEGERS, BYTES, INTEGERS, INTEGERS)
def find(
    data: Bytes, spans: Integers, known: Integers, operators: Integers, table: Integers, kept: Bytes, marks: Integers,
    found: Integers,
) -> tuple[Number, Number]:  # fmt: skip
    """Fill `found` with where the entry of each span begins, `NOTHING` where there is none; `marks` is scratch.

    What is not negative in `known` is not looked for.

    Spans are looked up in groups. Each step prefetches what the next one reads, because entries are scattered in
    memory, and the processor would wait for one after the other.

    Returns:
        How many were found, and the bytes of their results.
    """
    count, size = np.int64(0), np.int64(0)
    for first in range(0, found.size, _AT_ONCE):
        last = min(first + _AT_ONCE, found.size)
        for span in range(first, last):
            call = spans[SPAN * span]
            operator = operators[call] if call < operators.size and known[span] < 0 else NOTHING
            found[span] = operator
            if operator != NOTHING:
                mark = np.int64(hashed(data, operator, spans[SPAN * span + 1], spans[SPAN * span + 2]))
                fetch(table, _first(mark, table))
                marks[span] = mark
        for span in range(first, last):
            if found[span] != NOTHING:
                found[span] = at = _candidate(marks[span], table)
                if at != NOTHING:
                    fetch(kept, at)
                    fetch(kept, at + _LINE)
        for span in range(first, last):
            at = found[span]
            if at == NOTHING:
                continue
            start, length = spans[SPAN * span + 1], spans[SPAN * span + 2]
            kind = np.int64(word(kept, at + WORD))
            is_kind = kind >> (_LENGTH_BITS + _FORM_BITS) == _kind(operators[spans[SPAN * span]], length)
            if is_kind and _is_entry(data, start, length, kept, at + _VALUE):
                count += 1
                size += kind & _IS_NUMBER
            else:
                found[span] = NOTHING
    return count, size


@compiled(NUMBER, INTEGERS, BYTES, INTEGERS, OUT)
def take(found: Integers, kept: Bytes, rows: Integers, made: Bytes) -> Number:
    """Copy the results of what was found, in its order: `RESULT` integers each to `rows`, their bytes to `made`."""
    row, used = np.int64(0), np.int64(0)
    for span in range(found.size):
        soon = span + _AHEAD
        if soon < found.size and found[soon] != NOTHING:
            fetch(kept, found[soon])
            fetch(kept, found[soon] + _LINE)
        if found[span] == NOTHING:
            continue
        kind = np.int64(word(kept, found[span] + WORD))
        at = found[span] + _VALUE + _value_size(kind)
        form, size = kind >> _LENGTH_BITS & ((1 << _FORM_BITS) - 1), kind & _IS_NUMBER
        rows[row + FORM], rows[row + LENGTH] = form, size
        if form == NUMERIC:
            rows[row + START] = np.int64(word(kept, at))
        else:
            rows[row + START] = used
            used = copied(kept, at, size, made, used)
        row += RESULT
    return used


@inlined
def _put(mark: Number, at: Number, table: Integers) -> bool:
    place = _first(mark, table)
    for _ in range(LONGEST_SEARCH):
        if table[place] == NOTHING:
            table[place] = mark >> _WHERE_BITS << _WHERE_BITS | at
            return True
        place = (place + np.uint64(1)) & np.uint64(table.size - 1)
    return False


@compiled(types.UniTuple(NUMBER, 2), BYTES, INTEGERS, INTEGERS, INTEGERS, BYTES, INTEGERS, OUT, NUMBER)
def keep(
    data: Bytes, spans: Integers, operators: Integers, rows: Integers, made: Bytes,
    table: Integers, kept: Bytes, used: int,
) -> tuple[Number, Number]:  # fmt: skip
    """Write entries behind the first `used` bytes; returns how many, and the bytes that are used then."""
    count = np.int64(0)
    for span in range(spans.size // SPAN):
        call, start, length = spans[SPAN * span], spans[SPAN * span + 1], spans[SPAN * span + 2]
        form, result, size = rows[RESULT * span + FORM], rows[RESULT * span + START], rows[RESULT * span + LENGTH]
        if form == FAILED or operators[call] == NOTHING or max(length, size) > LONGEST_BYTES:
            continue
        mark = np.int64(hashed(data, operators[call], start, length))
        if not _put(mark, used, table):
            continue
        put_word(kept, used, mark)
        kind = (_kind(operators[call], length) << _FORM_BITS | form) << _LENGTH_BITS | size
        put_word(kept, used + WORD, kind)
        used += _VALUE
        if length < 0:
            put_word(kept, used, start)
            used += WORD
        else:
            used = copied(data, start, length, kept, used)
        if form == NUMERIC:
            put_word(kept, used, result)
            used += WORD
        else:
            used = copied(made, result, size, kept, used)
        count += 1
    return count, used


@compiled(NUMBER, BYTES, NUMBER, INTEGERS)
def rehash(kept: Bytes, used: int, table: Integers) -> Number:
    """Fill an empty table; returns how many entries it has no place for, which are asked for again."""
    lost, at = np.int64(0), np.int64(0)
    while at < used:
        if not _put(np.int64(word(kept, at)), at, table):
            lost += 1
        kind = np.int64(word(kept, at + WORD))
        is_number = kind >> _LENGTH_BITS & ((1 << _FORM_BITS) - 1) == NUMERIC
        at += _VALUE + _value_size(kind) + (np.int64(WORD) if is_number else kind & _IS_NUMBER)
    return lost


@dataclass(slots=True)
class MemoryBudget:
    """The bytes that several memories may still use together."""

    left: int = BUDGET_BYTES

    def take(self, more: int) -> bool:
        """Take bytes out of the budget, if they are there."""
        if more > self.left:
            return False
        self.left -= more
        return True


class ResultCache:
    """The memory of one topic's operators."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._numbers: dict[OperatorCache, int] = {}
        self._count = self._used = 0
        self._table = np.full(_FEWEST_PLACES, NOTHING, np.int64)
        self._kept: Bytes = np.empty(_FEWEST_BYTES, np.uint8)

    @property
    def size(self) -> int:
        """How many bytes the memory holds."""
        return self._table.nbytes + self._kept.nbytes

    @property
    def is_empty(self) -> bool:
        """Whether it knows nothing, be it not yet or not any more."""
        return self._count == 0

    def numbers(self, operators: Collection[OperatorCache]) -> Integers:
        """A number for each operator, the same whenever it is asked for; `NOTHING` for one that is not remembered."""
        for operator in operators:
            if operator.is_cacheable:
                self._numbers.setdefault(operator, len(self._numbers))
        return np.array([self._numbers.get(operator, NOTHING) for operator in operators], np.int64)

    def recall(self, data: Bytes, spans: Integers, known: Integers, operators: Integers) -> Recalled:
        """Look for the results of spans.

        Args:
            data: The batch.
            spans: `SPAN` integers each, operator calls first.
            known: For each span, whether its result is known already: not negative if it is; it is not looked for.
            operators: For each call its number from `numbers`; there may be calls behind them, which have no results.
        """
        found, marks = np.empty(len(spans) // SPAN, np.int64), np.empty(len(spans) // SPAN, np.int64)
        count, size = find(data, spans, known, operators, self._table, self._kept, marks, found)
        rows, made = np.empty((count, RESULT), np.int64), np.empty(size, np.uint8)
        take(found, self._kept, rows.reshape(-1), made)
        return Recalled(found, rows, made)

    def remember(self, data: Bytes, spans: Integers, operators: Integers, rows: Integers, made: Bytes) -> None:
        """Keep results of spans that `recall` did not find, each value once.

        Args:
            data: The batch.
            spans: As above.
            operators: As above.
            rows: Their results.
            made: The results' bytes.
        """
        count = len(rows)
        most = (_VALUE + 2 * WORD) * count + int(np.maximum(spans[2::SPAN], 0).sum() + rows[:, LENGTH].sum())
        if not self._has_room(count, most):
            self._table.fill(NOTHING)
            self._count = self._used = 0
            if not self._has_room(count, most):
                return
        more, self._used = keep(data, spans, operators, rows.reshape(-1), made, self._table, self._kept, self._used)
        self._count += more

    def _has_room(self, more: int, more_bytes: int) -> bool:
        """Grow to what is needed, if the budget has it."""
        size = _doubled(len(self._kept), self._used + more_bytes)
        places = _doubled(len(self._table), int((self._count + more) / _FULL))
        if size > _WHERE or not self._budget.take(size - len(self._kept) + 8 * (places - len(self._table))):
            return False
        if size > len(self._kept):
            before, self._kept = self._kept, np.empty(size, np.uint8)
            self._kept[: self._used] = before[: self._used]
        if places > len(self._table):
            self._table = np.full(places, NOTHING, np.int64)
            rehash(self._kept, self._used, self._table)
        return True


def _doubled(size: int, needed: int) -> int:
    while size < needed:
        size *= 2
    return size
