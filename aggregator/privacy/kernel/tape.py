"""The tape: the parts of a record's output, in order, as two integers per entry. One pass writes it, another reads it.

Invariant: an entry for which there is no room is still counted, so that the writer learns how much room is needed.
"""

import numpy as np

from aggregator.bytes_column import Integers
from aggregator.jit import Number, inlined

# An entry is (start, length) of input bytes, or (argument, kind).
NUMBER = -1  # a number, written in its shortest form
SPAN = -2  # what an operator made of a span
CONSTANT = -3  # an operator's one result


@inlined
def put(tape: Integers, count: Number, first: Number, second: Number) -> Number:
    """Add an entry; returns the new number of entries."""
    if 2 * count < tape.size:
        tape[np.uint64(2 * count)] = first
        tape[np.uint64(2 * count + 1)] = second
    return count + 1


@inlined
def kept(tape: Integers, count: Number, start: Number, end: Number) -> Number:
    """Add what is kept of the input, if it is anything."""
    if end > start:
        return put(tape, count, start, end - start)
    return count


@inlined
def renumbered(tape: Integers, count: Number, start: Number, at: Number, value: Number) -> Number:
    """Add what is kept up to a number, and another number in its place."""
    return put(tape, kept(tape, count, start, at), value, NUMBER)
