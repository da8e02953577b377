"""What operators make of spans: asked once per distinct value, put together so that the machine can write it.

Invariant: a value that an operator failed for has no result, and the machine never writes its record.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggregator.privacy import operators
from aggregator.privacy.codec import Raw
from aggregator.privacy.distinct import Distinct
from aggregator.privacy.kernel.assembling import FAILED, FORM, LENGTH, NUMERIC, PREFIXED, RESULT, START
from aggregator.privacy.kernel.machine import SPAN
from aggregator.privacy.kernel.spans import distinct, gather
from aggregator.privacy.leaf import INTEGERS, Leaf
from aggregator.privacy.pile import Bytes, Integers
from aggregator.privacy.plan import Call
from aggregator.schema.avro import Kind

_NUMBERS = INTEGERS | {Kind.ENUM}
_SIZES = {Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}
# A constant is asked for with no value at all.
_NO_VALUE = b""


class Results(NamedTuple):
    """Results by number, the constants first.

    Attributes:
        rows: How each is written, and (start, length) in `made` or its number.
        made: Bytes.
        which: For each span the number of its result.
    """

    rows: Integers
    made: Bytes
    which: Integers

    @property
    def failed(self) -> Integers:
        """Spans without a result."""
        return np.flatnonzero(self.rows[self.which, FORM] == FAILED)


class Calls:
    """The operator calls of a plan."""

    def __init__(self, calls: Sequence[Call], operators_by_call: Sequence[Distinct]) -> None:
        self._calls = calls
        self._operators = operators_by_call
        self._constant = np.array([not operators.reads_value(call.rule) for call in calls], bool)
        self._answered: list[Raw] = []
        self._constants = _joined([], np.zeros(0, np.int64))

    def constants(self) -> Results:
        """One result for every call that has a constant; the others have none."""
        answers = [
            operator.answers([_NO_VALUE])[0] if is_constant else None
            for operator, is_constant in zip(self._operators, self._constant, strict=True)
        ]
        if answers != self._answered:
            parts = [_rows(call.result, [answer]) for call, answer in zip(self._calls, answers, strict=True)]
            self._answered, self._constants = answers, _joined(parts, np.zeros(0, np.int64))
        return self._constants

    def broken(self, constants: Results) -> Integers:
        """By call, whether it has a constant and that is missing."""
        is_broken: Integers = ((constants.rows[:, FORM] == FAILED) & self._constant).astype(np.int64)
        return is_broken

    def answers(self, data: Bytes, spans: Integers, constants: Results) -> Results:
        """Results of all spans, behind the constants.

        Args:
            data: The batch.
            spans: From the scan.
            constants: As above.
        """
        count = len(spans) // SPAN
        if not count:
            return constants
        which, originals = np.empty(count, np.int64), np.empty(count, np.int64)
        table = np.full(1 << (2 * count).bit_length(), -1, np.int64)
        found = distinct(data, spans, count, table, which, originals)
        values = spans.reshape(-1, SPAN)[originals[:found]]
        parts, order = [(constants.rows, constants.made)], []
        for number in np.flatnonzero(np.bincount(values[:, 0])).tolist():
            members = np.flatnonzero(values[:, 0] == number)
            call = self._calls[number]
            raws = _raws(data, values[members], call.leaf)
            parts.append(_rows(call.result, self._operators[number].answers(raws)))
            order.append(members)
        places = np.empty(found, np.int64)
        places[np.concatenate(order)] = np.arange(len(constants.rows), len(constants.rows) + found)
        return _joined(parts, places[which])


def _raws(data: Bytes, values: Integers, leaf: Leaf) -> list[Raw]:
    """Distinct values as operators know them."""
    if leaf.kind in _NUMBERS:
        numbers: list[Raw] = values[:, 1].tolist()
        return numbers
    starts, lengths = np.ascontiguousarray(values[:, 1]), np.ascontiguousarray(values[:, 2])
    out, ends = np.empty(int(lengths.sum()), np.uint8), np.empty(len(values) + 1, np.int64)
    gather(data, starts, lengths, len(values), out, ends)
    return pieces(out, ends)


def pieces(data: Bytes, ends: Integers, missing: Integers | None = None) -> list[bytes | None]:
    """Cut a row of bytes; one call for all of it is three times as fast as slices."""
    valid = None if missing is None else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    buffers = [valid, pa.py_buffer(ends), pa.py_buffer(data)]
    cut: list[bytes | None] = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends) - 1, buffers).to_pylist()
    return cut


def _rows(result: Leaf, answers: Sequence[Raw]) -> tuple[Integers, Bytes]:
    """Rows and bytes of one call's results."""
    rows = np.zeros((len(answers), RESULT), np.int64)
    if result.kind in _NUMBERS and not result.nullable:
        rows[:, FORM] = [FAILED if answer is None else NUMERIC for answer in answers]
        rows[:, START] = [answer or 0 for answer in answers]
        return rows, np.zeros(0, np.uint8)
    if result.kind is Kind.BOOLEAN and not result.nullable:
        answers = [None if answer is None else bytes([answer]) for answer in answers]
    array = pa.array(answers, pa.large_binary())
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int64, len(answers) + 1)
    rows[:, START], rows[:, LENGTH] = ends[:-1], np.diff(ends)
    is_missing = array.is_null().to_numpy(zero_copy_only=False)
    if result.nullable:
        is_missing |= rows[:, LENGTH] != 1
    elif result.kind in (Kind.STRING, Kind.BYTES):
        rows[:, FORM] = PREFIXED
    else:
        is_missing |= rows[:, LENGTH] != _SIZES.get(result.kind, result.size)
    rows[is_missing, FORM] = FAILED
    return rows, np.frombuffer(data or b"", np.uint8)


def _joined(parts: Sequence[tuple[Integers, Bytes]], which: Integers) -> Results:
    """Results of several calls behind each other."""
    if not parts:
        return Results(np.zeros((0, RESULT), np.int64), np.zeros(0, np.uint8), which)
    rows = np.concatenate([rows for rows, _ in parts])
    first, at = 0, 0
    for own, made in parts:
        here = rows[first : first + len(own)]
        here[here[:, FORM] != NUMERIC, START] += at
        first, at = first + len(own), at + len(made)
    return Results(rows, np.concatenate([made for _, made in parts]), which)
