"""Finds the distinct values in a batch's spans, and copies them out of the batch for the operators.

Invariant: two values are the same when their operator call and their bytes are, or their numbers. The search for a
value has a limit, and beyond it the value counts as new, so that no input can make a batch slow. The operators' own
memory still finds such duplicates.
"""

import numpy as np

from aggregator.bytes_column import Bytes, Integers
from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, Number, compiled, inlined
from aggregator.privacy.kernel.encoder import copied
from aggregator.privacy.kernel.intrinsics import WORD, item, word
from aggregator.privacy.kernel.machine import SPAN

LONGEST_SEARCH = 16
# Odd constants of Knuth's multiplicative hashing (golden ratio) and of MurmurHash3's finaliser.
_GOLDEN, _FINAL = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xFF51AFD7ED558CCD)


@inlined
def _mixed(state: Number, more: Number) -> Number:
    state = (state ^ more) * _GOLDEN
    return state ^ (state >> np.uint64(32))


@inlined
def hashed(data: Bytes, call: Number, start: Number, length: Number) -> Number:
    """64 bits of a value and its operator call."""
    state = _mixed(_mixed(_FINAL, np.uint64(call)), np.uint64(length))
    if length < 0:
        return _mixed(state, np.uint64(start)) * _FINAL
    if length >= WORD:
        end = start + length - WORD
        while start < end:
            state = _mixed(state, word(data, start))
            start += WORD
        return _mixed(state, word(data, end)) * _FINAL
    rest = np.uint64(0)
    for place in range(length):
        rest = rest << np.uint64(8) | np.uint64(item(data, start + place))
    return _mixed(state, rest) * _FINAL


@inlined
def are_same(one: Bytes, first: Number, other: Bytes, second: Number, length: Number) -> bool:
    """Whether so many bytes from a position on are those of another row."""
    if length >= WORD:
        last = length - WORD
        for place in range(0, last, WORD):
            if word(one, first + place) != word(other, second + place):
                return False
        return bool(word(one, first + last) == word(other, second + last))
    for place in range(length):  # noqa: SIM110 - the machine has no generators
        if item(one, first + place) != item(other, second + place):
            return False
    return True


@inlined
def _is_same(data: Bytes, spans: Integers, one: Number, other: Number) -> bool:
    for part in range(0, SPAN, 2):
        if spans[SPAN * one + part] != spans[SPAN * other + part]:
            return False
    first, second, length = spans[SPAN * one + 1], spans[SPAN * other + 1], spans[SPAN * one + 2]
    if length < 0:
        return bool(first == second)
    return are_same(data, first, data, second, length)


@compiled(NUMBER, BYTES, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS)
def distinct(
    data: Bytes, spans: Integers, known: Integers, table: Integers, which: Integers, originals: Integers
) -> Number:
    """Find out which spans are the same.

    Args:
        data: The batch.
        spans: From the scan.
        known: For each span, whether its result is known already: not negative if it is; those are left out.
        table: Scratch; a power of two of integers, all -1, at least twice the number of spans that are not known.
        which: Gets the number of each span's distinct value; -1 for what is known.
        originals: Gets the first span of each distinct value.

    Returns:
        The number of distinct values.
    """
    mask = np.uint64(table.size - 1)
    found = np.int64(0)
    for span in range(known.size):
        which[span] = -1
        if known[span] >= 0:
            continue
        slot = hashed(data, spans[SPAN * span], spans[SPAN * span + 1], spans[SPAN * span + 2]) >> np.uint64(20) & mask
        same = np.int64(-1)
        for _ in range(LONGEST_SEARCH):
            other = table[slot]
            if other < 0:
                table[slot] = span
                break
            if _is_same(data, spans, span, other):
                same = which[other]
                break
            slot = (slot + np.uint64(1)) & mask
        if same < 0:
            same = found
            originals[found] = span
            found += 1
        which[span] = same
    return found


@compiled(NUMBER, BYTES, INTEGERS, INTEGERS, NUMBER, OUT, INTEGERS)
def gather(data: Bytes, starts: Integers, lengths: Integers, count: int, out: Bytes, ends: Integers) -> Number:
    """Copy pieces of the batch behind each other; `ends` gets where each ends, after a first 0. Returns the last."""
    at = np.int64(0)
    ends[0] = 0
    for piece in range(count):
        at = copied(data, starts[piece], lengths[piece], out, at)
        ends[piece + 1] = at
    return at
