"""Writes the output of a batch from its tape.

Invariant: every byte comes from a kept part of the input or from an operator's result.
"""

import numpy as np

from aggregator.bytes_column import Bytes, Integers
from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, Number, compiled, inlined
from aggregator.privacy.kernel import tape as tapes
from aggregator.privacy.kernel.encoder import copied, number_size, put_number
from aggregator.privacy.kernel.machine import GOOD

# The forms of a result: its bytes, its bytes after their length, or its number. A failed result is never written.
BARE, PREFIXED, NUMERIC, FAILED = range(4)
# A result is its form, and either (start, length) in the results' bytes or (number, 0).
RESULT = 3
FORM, START, LENGTH = range(3)


@inlined
def _result_size(results: Integers, row: Number) -> Number:
    if results[row + FORM] == NUMERIC:
        return number_size(results[row + START])
    prefix = number_size(results[row + LENGTH]) if results[row + FORM] == PREFIXED else np.int64(0)
    return prefix + results[row + LENGTH]


@compiled(NUMBER, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, NUMBER)
def measure(
    tape: Integers, entries_to: Integers, verdicts: Integers, which: Integers, results: Integers, header: int
) -> Number:
    """Bytes of the output of all good records, each with a header of so many bytes."""
    total = np.int64(0)
    for record in range(verdicts.size):
        if verdicts[record] == GOOD:
            total += header
            for entry in range(entries_to[record], entries_to[record + 1]):
                first, kind = tape[2 * entry], tape[2 * entry + 1]
                if kind >= 0:
                    total += kind
                elif kind == tapes.NUMBER:
                    total += number_size(first)
                else:
                    total += _result_size(results, RESULT * (which[first] if kind == tapes.SPAN else first))
    return total


@inlined
def _put_result(results: Integers, row: Number, made: Bytes, out: Bytes, at: Number) -> Number:
    if results[row + FORM] == NUMERIC:
        return put_number(results[row + START], out, at)
    if results[row + FORM] == PREFIXED:
        at = put_number(results[row + LENGTH], out, at)
    return copied(made, results[row + START], results[row + LENGTH], out, at)


@compiled(NUMBER, BYTES, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, BYTES, BYTES, OUT, INTEGERS)
def assemble(
    data: Bytes,
    tape: Integers,
    entries_to: Integers,
    verdicts: Integers,
    which: Integers,
    results: Integers,
    made: Bytes,
    header: Bytes,
    out: Bytes,
    ends: Integers,
) -> Number:
    """Write the output of a batch from its tape.

    Args:
        data: The bytes of the batch.
        tape: The tape from the scan.
        entries_to: For each record where its entries end, after a first 0.
        verdicts: Only good records are written.
        which: For each span the number of its result.
        results: `RESULT` integers per result; a constant has the number of its operator call.
        made: The bytes of the results.
        header: Goes in front of every record.
        out: Gets the bytes; as many as `measure` says.
        ends: Gets where each record ends, after a first 0.

    Returns:
        The number of bytes written.
    """
    at = np.int64(0)
    ends[0] = 0
    for record in range(verdicts.size):
        if verdicts[record] == GOOD:
            at = copied(header, 0, header.size, out, at)
            for entry in range(entries_to[record], entries_to[record + 1]):
                first, kind = tape[2 * entry], tape[2 * entry + 1]
                if kind >= 0:
                    at = copied(data, first, kind, out, at)
                elif kind == tapes.NUMBER:
                    at = put_number(first, out, at)
                else:
                    row = RESULT * (which[first] if kind == tapes.SPAN else first)
                    at = _put_result(results, row, made, out, at)
        ends[record + 1] = at
    return at
