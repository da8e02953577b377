"""Strips batches with compiled programs: the machine handles structure, and Python's operators handle distinct values.

Invariant: a record's output comes from the tape that its own scan left. A record for which an operator failed is
removed before anything is written.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from functools import partial
from typing import Any

import numpy as np

from aggregator.budgets import max_output_bytes
from aggregator.bytes_column import BytesColumn, Integers
from aggregator.errors import HoldError, Reason
from aggregator.privacy.batch.column import Counts, ResultColumn, TooMuch, joined, refused
from aggregator.privacy.batch.distinct import OperatorCache
from aggregator.privacy.batch.strip import Rejection
from aggregator.privacy.batch.tally import NodeCounts, visits
from aggregator.privacy.ids.schema_ids import FramedValues
from aggregator.privacy.kernel.machine import GOOD, OPERATOR_FAILED, SPAN, TOO_DEEP, UNDECODABLE
from aggregator.privacy.kernel.memory import MemoryBudget, ResultCache
from aggregator.privacy.kernel.output import assemble, measure
from aggregator.privacy.kernel.program import assembled
from aggregator.privacy.kernel.results import Calls, Results
from aggregator.privacy.kernel.side_inputs import records_of
from aggregator.privacy.kernel.tokens import KeyTokens
from aggregator.privacy.kernel.workspace import Scanned, Workspace
from aggregator.privacy.plan.plan import StripPlan
from aggregator.privacy.tokens.tokens import HmacTokenSpec
from aggregator.privacy.topic.keys import TokensOf
from aggregator.privacy.topic.programs import Maker
from aggregator.privacy.topic.topic import TopicStrip
from aggregator.schema.wire import HEADER_BYTES, frame

_REASONS = {
    UNDECODABLE: Reason.UNDECODABLE,
    TOO_DEEP: Reason.TOO_DEEP,
    OPERATOR_FAILED: Reason.OPERATOR_FAILED,
}


class KernelProgram:
    """Runs one plan over whole batches; see `programs.Program`."""

    def __init__(
        self,
        plan: StripPlan,
        calls: Sequence[OperatorCache],
        schema_id: int,
        central_id: int | None,
        *,
        workspace: Workspace,
        memory: ResultCache,
    ) -> None:
        self._code = assembled(plan)
        self._calls = Calls(plan, calls, memory)
        self._plan = plan
        self._met = np.zeros(self._code.size + 1, np.int64)
        self._records = 0
        self._failed: Counter[int] = Counter()
        self._schema_id = schema_id
        self._header = None if central_id is None else np.frombuffer(frame(central_id, b""), np.uint8)
        self._workspace = workspace

    def strip(self, batch: FramedValues, members: Integers) -> ResultColumn:
        """Strip framed values of the plan's schema: nearly always at once, and in parts where they are very many.

        Raises:
            HoldError: more would be made of the batch than memory may hold; nothing of it counts, try its halves.
        """
        before = self._met.copy(), self._records, self._failed.copy()
        try:
            return self._stripped(batch, members)
        except HoldError:
            self._met, self._records, self._failed = before
            raise

    def _stripped(self, batch: FramedValues, members: Integers) -> ResultColumn:
        starts, ends = batch.starts[members] + HEADER_BYTES, batch.ends[members]
        first, taken = self._part(batch, starts, ends)
        if taken == len(members):
            return first
        parts, at = [(np.arange(taken), first)], taken
        while at < len(members):
            part, taken = self._part(batch, starts[at:], ends[at:])
            parts.append((np.arange(at, at + taken), part))
            at += taken
        return joined(len(members), parts)

    def _part(self, batch: FramedValues, starts: Integers, ends: Integers) -> tuple[ResultColumn, int]:
        """As many of the first records as their budget allows, and how many those are.

        Raises:
            HoldError: too much would be made of all of them; of one alone it is a rejection.
        """
        try:
            return self._some(batch, starts, ends)
        except TooMuch:
            if len(batch) == 1:
                return refused(np.arange(1), Rejection(Reason.TOO_LARGE, self._schema_id))[1], 1
            most = max_output_bytes(len(batch.data))
            raise HoldError(
                f"more than {most} bytes would be made of {len(batch)} records", hint="their halves are tried"
            ) from None

    def _some(self, batch: FramedValues, starts: Integers, ends: Integers) -> tuple[ResultColumn, int]:
        data = batch.data
        constants = self._calls.constants()
        broken = self._calls.broken(constants)
        scanned = self._workspace.scan(self._code, data, starts, ends, broken)
        if not len(scanned.verdicts):
            return refused(np.arange(1), Rejection(Reason.TOO_LARGE, self._schema_id))[1], 1

        def counts_of(rows: Collection[int]) -> Counts:
            chosen = np.array(list(rows), np.int64)
            return self._counts(self._workspace.scan(self._code, data, starts[chosen], ends[chosen], broken))

        self._met += scanned.counters
        self._records += int(np.count_nonzero(scanned.verdicts == GOOD))
        askers = scanned.asked[::SPAN].copy()
        room = max_output_bytes(len(data)) - batch.made
        results = self._calls.answers(data, scanned, self._code.askers, constants, room)
        counts = self._counts(scanned)
        failed = results.failed
        records = records_of(scanned.spans_to, failed)
        lost = np.unique(records)
        scanned.verdicts[lost] = OPERATOR_FAILED
        column = ResultColumn(self._written(batch, scanned, results), self._rejected(scanned), counts, counts_of)
        column.side_values = dict(results.side_values)
        if len(lost):
            leaves = np.unique(np.stack((records, askers[failed])), axis=1)[1].tolist()
            self._failed.update(self._code.asking[asker] for asker in leaves)
            column.counts = counts - counts_of(lost)
        return column, len(scanned.verdicts)

    def node_counts(self) -> NodeCounts:
        """The counts so far: records at the root, the rest from the counters of unions and arrays."""
        inner = Counter({node: 0 for node, _ in self._code.inner})
        for node, counter in self._code.inner:
            inner[node] += int(self._met[counter])
        return NodeCounts(visits(self._plan, self._records, inner), self._failed)

    def _counts(self, scanned: Scanned) -> Counts:
        pairs = zip(self._code.counters, scanned.counters.tolist(), strict=False)
        return Counter({label: count for label, count in pairs if count})

    def _rejected(self, scanned: Scanned) -> dict[int, Rejection]:
        bad = np.flatnonzero(scanned.verdicts != GOOD)
        verdicts = scanned.verdicts[bad].tolist()
        return {
            row: Rejection(_REASONS[verdict], self._schema_id)
            for row, verdict in zip(bad.tolist(), verdicts, strict=True)
        }

    def _written(self, batch: FramedValues, scanned: Scanned, results: Results) -> BytesColumn:
        """Write what is left of the records.

        Raises:
            TooMuch: it is more than their budget.
        """
        tape, entries_to, verdicts = scanned.tape, scanned.entries_to, scanned.verdicts
        if self._header is None:
            return BytesColumn.empty(len(verdicts))
        rows = results.rows.reshape(-1)
        size = measure(tape, entries_to, verdicts, results.which, rows, HEADER_BYTES)
        batch.made += size
        if batch.made > max_output_bytes(len(batch.data)):
            raise TooMuch
        out, ends = np.empty(size, np.uint8), np.empty(len(verdicts) + 1, np.int64)
        assemble(batch.data, tape, entries_to, verdicts, results.which, rows, results.made, self._header, out, ends)
        is_bad = verdicts != GOOD
        return BytesColumn(out, ends, is_bad if is_bad.any() else None)


class KernelStrip(TopicStrip):
    """Strips the records of one edge topic, at the speed of copying.

    Args:
        budget: What all topics of a slot may remember.
        topic: As `TopicStrip`.

    Raises:
        ConfigError: as `TopicStrip`.
    """

    def __init__(self, *, budget: MemoryBudget | None = None, **topic: Any) -> None:
        self._budget = budget or MemoryBudget()
        super().__init__(**topic)

    def _maker(self) -> Maker:
        return partial(KernelProgram, workspace=Workspace(), memory=ResultCache(self._budget))

    def _tokens_of(self, token_spec: HmacTokenSpec) -> TokensOf:
        return KeyTokens(token_spec).of
