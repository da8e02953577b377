"""The arrays that the machine works in; they are as large as the largest batch needed, and are reused by the next one.

Invariant: data that one batch left in them is never read by another. An array that is too small is doubled, and the
scan continues where it stopped. The number of values at once has a budget. The scan ends before the record that would
exceed it, and that record is scanned the next time.
"""

from typing import NamedTuple

import numpy as np

from aggregator.budgets import BATCH_VALUES
from aggregator.bytes_column import Bytes, Integers
from aggregator.privacy.kernel.machine import GOOD, SPAN, STACK, scan
from aggregator.privacy.kernel.program import Code

# Entries of the tape and spans per record, to begin with; most records have fewer.
_ENTRIES, _SPANS = 8, 4
_ENTRY = 2


class Scanned(NamedTuple):
    """The results of a scan of the first records; they are valid until the next scan of the workspace.

    Attributes:
        tape: Entries from which the output is assembled.
        entries_to: For each record where its entries end, after a first 0.
        spans: What operators must see.
        spans_to: For each record where its spans end, after a first 0.
        verdicts: One per record; fewer than there were records where the others are more than a budget, and none
            where the first one alone is.
        counters: One per counter of the program.
    """

    tape: Integers
    entries_to: Integers
    spans: Integers
    spans_to: Integers
    verdicts: Integers
    counters: Integers

    @property
    def asked(self) -> Integers:
        """One row (asker, start, length) per span; (asker, number, -1) where the value is a number."""
        return self.spans[: SPAN * int(self.spans_to[-1])]


class Workspace:
    """Arrays that one batch after the other uses."""

    def __init__(self) -> None:
        self._tape = np.empty(0, np.int64)
        self._spans = np.empty(0, np.int64)
        self._stack = np.empty(STACK, np.int64)

    def scan(self, code: Code, data: Bytes, starts: Integers, ends: Integers, broken: Integers) -> Scanned:
        """Read records of one schema.

        Args:
            code: The schema's program.
            data: The batch.
            starts: The start of each record's body in the data.
            ends: The end of each record's body.
            broken: By operator call, whether its constant is missing.
        """
        size, done = len(starts), 0
        self._tape = _grown(self._tape, _ENTRY * _ENTRIES * size)
        self._spans = _grown(self._spans, SPAN * _SPANS * size)
        entries_to, spans_to = np.zeros(size + 1, np.int64), np.zeros(size + 1, np.int64)
        verdicts, counters = np.empty(size, np.int64), np.zeros(code.size + 1, np.int64)
        while True:
            tape, spans = self._tape, self._spans[: SPAN * BATCH_VALUES.limit]
            done = scan(
                code.instructions, code.branches, data, starts, ends, broken,
                tape, spans, self._stack, counters, verdicts, entries_to, spans_to, done,
            )  # fmt: skip
            if done == size or spans_to[done + 1] > BATCH_VALUES.limit:
                break
            self._tape = _grown(tape, _ENTRY * int(entries_to[done + 1]))
            self._spans = _grown(self._spans, SPAN * int(spans_to[done + 1]))
        verdicts = verdicts[:done]
        np.add.at(counters, list(code.always), np.count_nonzero(verdicts == GOOD))
        return Scanned(tape, entries_to[: done + 1], spans, spans_to[: done + 1], verdicts, counters)


def _grown(row: Integers, size: int) -> Integers:
    """A row of at least this size that begins with the same content; twice as long, so that few copies are made."""
    if len(row) >= size:
        return row
    grown = np.empty(max(size, 2 * len(row)), np.int64)
    grown[: len(row)] = row
    return grown
