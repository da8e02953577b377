"""The tape: what a record's output is made of, in order, two integers per entry; written by one pass, read by another.

Invariant: an entry that finds no room is counted all the same, so that the writer learns how much is needed.
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
