"""Strips values that are plain text or bytes: one rule applies to each value as a whole.

Invariants: without a valid rule nothing of a value is left. A value that is declared as text but is not UTF-8 is
rejected under every rule, so that text stays text. A dropped value becomes an empty value, because a null would delete
the record of that key in a compacted topic.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from aggregator.budgets import BATCH_PLAIN_BYTES, BATCH_VALUES, max_output_bytes
from aggregator.bytes_column import BytesColumn
from aggregator.config.secrets import KeyRing
from aggregator.errors import HoldError, Reason
from aggregator.privacy import operators
from aggregator.privacy.batch.column import Counts, ResultColumn, TooMuch
from aggregator.privacy.batch.distinct import OperatorCache, in_parts
from aggregator.privacy.batch.strip import FoundSchema, Rejection, ReportRow
from aggregator.privacy.batch.tally import NULL, counted_rows
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.fields.value_format import ValueFormat
from aggregator.privacy.operators.drop import Drop
from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.plan.plan import Call, Row
from aggregator.privacy.policy.precedence import AppliedRule, Scope
from aggregator.privacy.policy.whole_value import leaf_of_whole, result_of_whole
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.privacy.topic.keys import TokensOf

PATH = "."


class PlainValues:
    """Strips the values of one topic; what `programs.Programs` is for values with a schema.

    Args:
        value_format: `text` or `bytes`.
        scope: What the policy says of a whole value.
        key_rings: Key rings by name.
        tokens_of: What makes tokens of many values at once, from what they are made of; None: nothing does.

    Attributes:
        batch_schemas: Empty, because nothing names a schema.
    """

    batch_schemas: ClassVar[Mapping[str, FoundSchema]] = {}

    def __init__(
        self,
        value_format: ValueFormat,
        scope: Scope,
        key_rings: Mapping[str, KeyRing],
        tokens_of: Callable[[HmacTokenSpec], TokensOf | None] = lambda _: None,
    ) -> None:
        self._value_format = value_format
        self._scope = scope
        self._key_rings = key_rings
        self._tokens_of = tokens_of
        self._tokens: TokensOf | None = None
        self._day: date | None = None
        self._decision = AppliedRule(Drop(), "")
        self._operator: OperatorCache | None = None
        self._seen: Counter[Row] = Counter()
        self._failed: Counter[Row] = Counter()

    def begin(self, today: date) -> None:
        """A new batch: what was open may have expired.

        Raises:
            ConfigError: a key cannot be read.
        """
        if today != self._day:
            self._decision = whole_decision(self._value_format, self._scope, today)
            self._operator = self._made(today)
            token_spec = self._operator.token_spec if self._operator else None
            self._tokens = self._tokens_of(token_spec) if token_spec else None
            self._day = today

    def prepare(self, values: Sequence[bytes | None]) -> Callable[[], ResultColumn]:
        """A function that strips the values of the begun batch; see `programs.Programs`."""
        return partial(self.strip, BytesColumn.of(values))

    def strip(self, cells: BytesColumn) -> ResultColumn:
        """Strip the values of the batch that was begun.

        Raises:
            HoldError: too much would be made of all of them; of one alone it is a rejection.
        """
        rejected = dict.fromkeys(self._unreadable(cells), Rejection(Reason.UNDECODABLE))
        try:
            column = self._left(cells.without(rejected), rejected)
        except TooMuch:
            if len(cells) > 1:
                raise HoldError(
                    f"more than {_most(cells)} bytes would be made of {len(cells)} records",
                    hint="their halves are tried",
                ) from None
            return ResultColumn([None], {0: Rejection(Reason.TOO_LARGE)})
        nulls = cells.count(None)
        self._met(NULL, nulls)
        self._met(self._value_format.value, len(cells) - nulls - len(rejected), len(column.rejected) - len(rejected))
        return column

    def report(self) -> list[ReportRow]:
        """The counts so far; a value that is no text counts nothing."""
        return list(counted_rows(self._seen, self._failed))

    def _met(self, kind: str, seen: int, failed: int = 0) -> None:
        if seen:
            decision = self._decision
            row = Row("", kind, (), decision.because, decision.rule.operator, decision.privacy_class)
            self._seen[row] += seen
            self._failed[row] += failed

    def _unreadable(self, cells: BytesColumn) -> list[int]:
        """Places of what is declared as text and is none."""
        if self._value_format is not ValueFormat.TEXT or cells.are_text():
            return []
        return [place for place, cell in enumerate(cells.tolist()) if cell is not None and not _is_text(cell)]

    def _left(self, cells: BytesColumn, rejected: Mapping[int, Rejection]) -> ResultColumn:
        if isinstance(self._decision.rule, Keep):
            return ResultColumn(cells, dict(rejected))
        if self._operator is None:
            empty = BytesColumn(np.zeros(0, np.uint8), np.zeros(len(cells) + 1, np.int64), cells.nulls)
            return _column(cells, empty, dict(rejected), "drop")
        tokens = self._tokens(cells) if self._tokens else None
        if tokens is not None:
            return _column(cells, tokens, dict(rejected), self._decision.rule.operator)
        made = list(self._answers(cells, self._operator))
        failed = {place for place, answer in enumerate(made) if answer is None} - {*_nulls(cells)}
        lost = {**rejected, **dict.fromkeys(sorted(failed), Rejection(Reason.OPERATOR_FAILED))}
        return _column(cells, made, lost, self._decision.rule.operator)

    def _answers(self, cells: BytesColumn, operator: OperatorCache) -> Iterator[Raw]:
        """What the operator makes of each value, some of them at a time; None for null and for one that failed.

        Raises:
            TooMuch: more than the budget of the batch.
        """
        room = _most(cells)
        for start, end in pairwise(_cuts(cells)):
            part = cells[start:end].tolist()
            distinct = list(dict.fromkeys(value for value in part if value is not None))
            answers: dict[bytes | None, Raw] = {}
            answers.update(zip(distinct, in_parts(operator.answers, distinct, room), strict=True))
            room -= sum(len(answers[value] or b"") for value in part if value is not None)
            if room < 0:
                raise TooMuch
            yield from map(answers.get, part)

    def _made(self, today: date) -> OperatorCache | None:
        """The operator behind its memory; None for what has no code."""
        rule, leaf = self._decision.rule, leaf_of_whole(self._value_format)
        result = result_of_whole(self._value_format, rule)
        if isinstance(rule, Keep | Drop) or result is None:
            return None
        call = Call(rule, leaf, result, operators.context(rule, self._scope.topic, PATH, today))
        return OperatorCache.of(call, self._key_rings)


def whole_decision(value_format: ValueFormat, scope: Scope, today: date) -> AppliedRule:
    """The rule that holds for whole values.

    Args:
        value_format: `text` or `bytes`.
        scope: What the policy says of them.
        today: Decides what has expired.
    """
    decision = scope.decide_whole(today)
    if not isinstance(decision.rule, Keep | Drop) and result_of_whole(value_format, decision.rule) is None:
        return AppliedRule(Drop(), f"{decision.because}; {decision.rule.operator} does not take {value_format.value}")
    return decision


def _column(cells: BytesColumn, made: Sequence[Raw], rejected: dict[int, Rejection], operator: str) -> ResultColumn:
    """A column in which the operator is counted once for every value that it was asked about."""
    empty = frozenset(_nulls(cells))

    def counted(count: int) -> Counts:
        return Counter({(PATH, operator): count} if count else {})

    def counts_of(places: Collection[int]) -> Counts:
        return counted(len(places) - len(empty.intersection(places)))

    return ResultColumn(made, rejected, counted(len(cells) - len(empty.union(rejected))), counts_of)


def _nulls(cells: BytesColumn) -> list[int]:
    return [] if cells.nulls is None else np.flatnonzero(cells.nulls).tolist()


def _is_text(cell: bytes) -> bool:
    try:
        cell.decode()
    except UnicodeDecodeError:
        return False
    return True


def _most(cells: BytesColumn) -> int:
    return max_output_bytes(int(cells.ends[-1] - cells.ends[0]))


def _cuts(cells: BytesColumn) -> Iterator[int]:
    """Where parts of the batch begin, and where the last one ends; a part has one value at least."""
    yield 0
    ends, start = cells.ends, 0
    while start < len(cells):
        end = int(np.searchsorted(ends, ends[start] + BATCH_PLAIN_BYTES.limit, side="right")) - 1
        start = min(max(end, start + 1), start + BATCH_VALUES.limit, len(cells))
        yield start
