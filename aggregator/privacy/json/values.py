"""Strips JSON values that have no schema: data that no path of the policy names is removed.

Invariants: the output has one form (sorted names, no spaces), whatever the spelling of the input. A record is rejected
as a whole if an operator failed for it, or if two of its names became the same.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from aggregator.budgets import BATCH_PLAIN_BYTES, max_output_bytes
from aggregator.config.secrets import KeyRing
from aggregator.errors import HoldError, Reason
from aggregator.privacy.batch.column import ABSENT, NOWHERE, Counts, ResultColumn, SideValues, TooMuch, joined
from aggregator.privacy.batch.distinct import OperatorCache, by_value, in_parts
from aggregator.privacy.batch.guard import Malformed
from aggregator.privacy.batch.strip import FoundSchema, Rejection, ReportRow
from aggregator.privacy.batch.tally import counted_rows
from aggregator.privacy.fields import paths
from aggregator.privacy.fields.leaf import Shown
from aggregator.privacy.fields.raw_values import Raw
from aggregator.privacy.json.allowlist import AllowList
from aggregator.privacy.json.text import Json, read_json, write_json
from aggregator.privacy.json.walk import INDEFINITE, InputCollector, OutputBuilder, at_path
from aggregator.privacy.plan.plan import Call, Row
from aggregator.privacy.policy.precedence import Scope
from aggregator.privacy.policy.rules import is_deterministic


class _Work:
    """The work on one batch; its counts are added once all of it is done.

    Args:
        limit: Bytes that may be made of its values.

    Attributes:
        limit: The same.
        room: What is left of it.
        seen: What was met.
        failed: Leaves without a result.
    """

    def __init__(self, limit: int) -> None:
        self.limit = self.room = limit
        self.seen: Counter[Row] = Counter()
        self.failed: Counter[Row] = Counter()


class JsonValues:
    """Strips the values of one topic; what `programs.Programs` is for values with a schema.

    Args:
        scope: What the policy says.
        key_rings: Key rings by name.

    Attributes:
        batch_schemas: Empty, because nothing names a schema.
    """

    batch_schemas: ClassVar[Mapping[str, FoundSchema]] = {}

    def __init__(self, scope: Scope, key_rings: Mapping[str, KeyRing]) -> None:
        self._scope = scope
        self._key_rings = key_rings
        self._side_inputs = {path: paths.steps(path) for path in sorted(scope.side_inputs)}
        self._day: date | None = None
        self._calls: dict[Call, OperatorCache] = {}
        self._seen: Counter[Row] = Counter()
        self._failed: Counter[Row] = Counter()

    def begin(self, today: date) -> None:
        """A new batch: what was open may have expired."""
        if today != self._day:
            self._day = today
            self._calls = {call: made for call, made in self._calls.items() if is_deterministic(call.rule)}
            self._root = AllowList(self._scope, today).root

    def prepare(self, values: Sequence[bytes | None]) -> Callable[[], ResultColumn]:
        """A function that strips the values of the begun batch; see `programs.Programs`."""
        return partial(self.strip, values)

    def strip(self, values: Sequence[bytes | None]) -> ResultColumn:
        """Strip the values of the batch that was begun, so many bytes of them at once as their budget says.

        Raises:
            ConfigError: a key cannot be read.
            HoldError: too much would be made of all of them; of one alone it is a rejection.
        """
        work = _Work(max_output_bytes(sum(len(value or b"") for value in values)))
        cuts = list(_cuts(values))
        try:
            parts = [(np.arange(start, end), self._part(values[start:end], work)) for start, end in pairwise(cuts)]
        except TooMuch:
            if len(values) > 1:
                raise HoldError(
                    f"more than {work.limit} bytes would be made of {len(values)} records",
                    hint="their halves are tried",
                ) from None
            rejected = {0: Rejection(Reason.TOO_LARGE)}
            return ResultColumn([None], rejected, Counter(), lambda _: Counter(), self._side_values({}, values))
        self._seen.update(work.seen)
        self._failed.update(work.failed)
        return parts[0][1] if len(parts) == 1 else joined(len(values), parts)

    def _part(self, values: Sequence[bytes | None], work: "_Work") -> ResultColumn:
        records = [(place, self._read(value)) for place, value in enumerate(values) if value is not None]
        rejected = {place: record for place, record in records if isinstance(record, Rejection)}
        good = [(place, record) for place, record in records if not isinstance(record, Rejection)]
        shown = {place: dict(self._shown(record)) for place, (record,) in good}
        collector = InputCollector()
        for place, (record,) in good:
            collector.left(record, self._root, shown[place])
        work.seen.update(collector.seen)
        results = {call: self._results(call, raws, work) for call, raws in collector.wanted.items()}
        counts: dict[int, Counts] = {}
        contents: list[bytes | None] = [None] * len(values)
        for place, (record,) in good:
            builder = OutputBuilder(results, work.room)
            made = builder.left(record, self._root, shown[place])
            if builder.failed or builder.is_merged:
                work.failed.update(builder.failed)
                rejected[place] = Rejection(Reason.OPERATOR_FAILED)
            else:
                work.room -= builder.made
                contents[place], counts[place] = write_json(made), builder.counts
        return ResultColumn(
            contents,
            rejected,
            _summed(counts, counts),
            lambda lost: _summed(counts, lost),
            self._side_values(shown, values),
        )

    def _results(self, call: Call, raws: Collection[Raw], work: "_Work") -> Mapping[Raw, Raw]:
        """What an operator makes of a part's values, some at a time: each may become as long as its budget allows."""
        asked = list(raws)
        return by_value(asked, in_parts(self._call(call).answers, asked, work.room))

    def report(self) -> list[ReportRow]:
        """A row for each place so far, in the policy's words, by the types that its values had."""
        return list(counted_rows(self._seen, self._failed))

    @staticmethod
    def _read(value: bytes) -> tuple[Json] | Rejection:
        try:
            return (read_json(value),)
        except Malformed as error:
            return Rejection(error.reason)

    def _shown(self, record: Json) -> Iterator[tuple[str, Shown]]:
        for path, steps in self._side_inputs.items():
            found = at_path(record, steps)
            if found is not None:
                yield path, found

    def _side_values(
        self, shown: Mapping[int, Mapping[str, Shown]], values: Sequence[bytes | None]
    ) -> dict[str, SideValues]:
        found = {}
        for path in self._scope.condition_fields:
            there = {place: held[path] for place, held in shown.items() if path in held}
            codes = np.full(len(values), ABSENT, np.int64)
            codes[list(there)] = range(len(there))
            codes[[place for place, value in there.items() if value is INDEFINITE]] = NOWHERE
            found[path] = SideValues(codes, list(there.values()))
        return found

    def _call(self, call: Call) -> OperatorCache:
        if call not in self._calls:
            self._calls[call] = OperatorCache.of(call, self._key_rings)
        return self._calls[call]


def _cuts(values: Sequence[bytes | None]) -> Iterator[int]:
    """The boundaries of the batch's parts, including the end of the last one."""
    yield 0
    held = 0
    for place, value in enumerate(values):
        held += len(value or b"")
        if held > BATCH_PLAIN_BYTES.limit and place:
            yield place
            held = len(value or b"")
    yield len(values)


def _summed(counts: Mapping[int, Counts], places: Collection[int]) -> Counts:
    whole: Counts = Counter()
    for place in places:
        whole.update(counts.get(place, ()))
    return whole
