"""Calls the operators once per distinct value of a batch, and lays their results out for the machine to write.

Tokens are made by the machine itself.

Invariant: a value for which an operator failed has no result, and the machine never writes its record.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from aggregator.bytes_column import Bytes, Integers
from aggregator.privacy import operators
from aggregator.privacy.batch.column import SideValues
from aggregator.privacy.batch.distinct import OperatorCache, in_parts
from aggregator.privacy.fields.leaf import INTEGERS, Leaf
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.kernel.machine import SPAN
from aggregator.privacy.kernel.memory import ResultCache
from aggregator.privacy.kernel.output import FAILED, FORM, LENGTH, NUMERIC, PREFIXED, RESULT, START
from aggregator.privacy.kernel.side_inputs import paired, raws_of_spans, records_of, side_values
from aggregator.privacy.kernel.spans import distinct
from aggregator.privacy.kernel.tokens import TokenCalls
from aggregator.privacy.kernel.workspace import Scanned
from aggregator.privacy.plan.plan import StripPlan
from aggregator.schema.avro import Kind

_NUMBERS = INTEGERS | {Kind.ENUM}
_SIZES = {Kind.BOOLEAN: 1, Kind.FLOAT: 4, Kind.DOUBLE: 8}
# If the memory held fewer than one value in 32, only one value in 16 is remembered from now on. That is enough to see
# that values repeat, and costs next to nothing where each value comes once.
_REPEATS, _SAMPLE = 32, 16
# A constant is requested with an empty value.
_NO_VALUE = b""


class Results(NamedTuple):
    """The results of a batch by number; the constants come first.

    Attributes:
        rows: How each is written, and (start, length) in `made` or its number.
        made: Bytes.
        which: For each span the number of its result.
        side_values: Path to what it held.
    """

    rows: Integers
    made: Bytes
    which: Integers
    side_values: Mapping[str, SideValues] = {}

    @property
    def failed(self) -> Integers:
        """The spans for which the operator failed."""
        return np.flatnonzero(self.rows[self.which, FORM] == FAILED)


class Calls:
    """The operator calls of a plan, and its side inputs, which are numbered behind them."""

    def __init__(self, plan: StripPlan, operators_by_call: Sequence[OperatorCache], memory: ResultCache) -> None:
        calls = plan.calls
        self._calls = calls
        self._side_inputs = dict(enumerate(plan.side_inputs, len(calls)))
        self._uncomparable = plan.uncomparable
        self._sees_other = [number for number, call in enumerate(calls) if call.other_field]
        self._operators = operators_by_call
        self._memory = memory
        self._numbers = memory.numbers(operators_by_call)
        self._tokens = TokenCalls([operator.token_spec for operator in operators_by_call])
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
        """By call whether it has a constant that is missing."""
        is_broken: Integers = ((constants.rows[:, FORM] == FAILED) & self._constant).astype(np.int64)
        return is_broken

    def answers(self, data: Bytes, scanned: Scanned, askers: Integers, constants: Results, room: int) -> Results:
        """Results of all spans, behind the constants.

        Args:
            data: The batch.
            scanned: From the scan; its spans get the operator call in place of the asker.
            askers: For each asker its operator call, or its side input.
            constants: As above.
            room: Bytes that operators may make whose results are far longer than their values.

        Raises:
            TooMuch: it would be more.
        """
        spans = scanned.asked.reshape(-1, SPAN)
        count = len(spans)
        if not count:
            return constants._replace(
                side_values=side_values(
                    data, spans, constants.which, scanned.spans_to, self._side_inputs, self._uncomparable
                )
            )
        spans[:, 0] = askers[spans[:, 0]]
        tokens = self._tokens.of(data, scanned.asked)
        if len(tokens.rows) == count and not self._side_inputs:
            both = [(constants.rows, constants.made), (tokens.rows, tokens.made)]
            return _joined(both, tokens.which + len(constants.rows))
        recalled = self._memory.recall(data, scanned.asked, tokens.which, self._numbers)
        which, originals = np.empty(count, np.int64), np.empty(count, np.int64)
        asked = count - len(tokens.rows)
        table = np.full(1 << (2 * (asked - len(recalled.rows))).bit_length(), -1, np.int64)
        known = np.maximum(recalled.found, tokens.which)
        found = distinct(data, scanned.asked, known, table, which, originals)
        values = spans[originals[:found]]
        parts, places = [(constants.rows, constants.made)], np.zeros(found, np.int64)
        at = len(constants.rows)
        come_again = self._memory.is_empty or len(recalled.rows) * _REPEATS >= asked
        step = 1 if come_again else _SAMPLE
        for number in np.flatnonzero(np.bincount(values[:, 0], minlength=1)).tolist():
            if number < len(self._calls) and not self._calls[number].other_field:
                members = np.flatnonzero(values[:, 0] == number)
                rows, made = self._computed(number, data, values[members], step, room)
                parts.append((rows, made))
                places[members] = np.arange(at, at + len(members))
                at += len(members)
        is_recalled, is_token, is_new = recalled.found >= 0, tokens.which >= 0, known < 0
        of_spans = np.empty(count, np.int64)
        of_spans[is_new] = places[which[is_new]]
        of_spans[is_recalled] = np.arange(at, at + len(recalled.rows))
        of_spans[is_token] = tokens.which[is_token] + at + len(recalled.rows)
        parts += [(recalled.rows, recalled.made), (tokens.rows, tokens.made)]
        if not self._side_inputs and not self._sees_other:
            return _joined(parts, of_spans)
        return self._with_side_inputs(data, spans, which, scanned.spans_to, parts, of_spans)

    def _computed(self, number: int, data: Bytes, spans: Integers, step: int, room: int) -> tuple[Integers, Bytes]:
        """What one operator makes of values that are not remembered; one in `step` is from now on."""
        operator, raws = self._operators[number], raws_of_spans(data, spans)
        answers = in_parts(operator.compute, raws, room) if operator.may_grow else operator.compute(raws)
        rows, made = _rows(self._calls[number].result, answers)
        if operator.is_cacheable:
            self._memory.remember(data, spans[::step].reshape(-1), self._numbers, rows[::step], made)
        return rows, made

    def _with_side_inputs(
        self, data: Bytes, spans: Integers, which: Integers, spans_to: Integers,
        parts: list[tuple[Integers, Bytes]], places: Integers,
    ) -> Results:  # fmt: skip
        """The same where operators see other fields, and where fields are side inputs, whose spans have no result."""
        held = side_values(data, spans, which, spans_to, self._side_inputs, self._uncomparable)
        at = sum(len(rows) for rows, _ in parts)
        for number in self._sees_other:
            members = np.flatnonzero(spans[:, 0] == number)
            others = held.get(self._calls[number].other_field)
            pairs, numbers = paired(data, spans, which, members, others, records_of(spans_to, members))
            parts.append(_rows(self._calls[number].result, self._operators[number].answers(pairs)))
            places[members] = at + numbers
            at += len(pairs)
        parts.append((np.zeros((1, RESULT), np.int64), np.zeros(0, np.uint8)))
        places[spans[:, 0] >= len(self._calls)] = at
        return _joined(parts, places)._replace(side_values=held)


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
