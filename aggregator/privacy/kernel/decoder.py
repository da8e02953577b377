"""Decodes the parts of an Avro value (numbers, sizes, text); the functions are inlined into the machine.

Invariant: no byte at or after `end` is read. The functions refuse the same bytes as the reference's guard, by a
position of -1.
"""

import numpy as np

from aggregator.bytes_column import Bytes, Integers
from aggregator.jit import Number, inlined, inlined_early
from aggregator.privacy.kernel.intrinsics import WORD, item, word, zeros_below
from aggregator.privacy.kernel.opcodes import ARGUMENT, KEPT, LAST_VALUE, STRIDE, Op
from aggregator.privacy.kernel.text import HIGH_BITS, is_text

REFUSED = -1
_INT_BYTES, _LONG_BYTES = 5, 10
# The highest last byte of a number in its longest form: the remaining bits of 32, or of 64.
_INT_REST, _LONG_REST = 15, 1


@inlined
def number(data: Bytes, at: Number, end: Number, longest: Number) -> tuple[Number, Number]:
    """A zigzag number of at most `longest` bytes, and the position after it."""
    if at < end:
        byte = np.int64(item(data, at))
        if byte < 128:  # noqa: PLR2004 - the continuation bit
            return (byte >> 1) ^ -(byte & 1), at + 1
    return long_number(data, at, end, longest)


@inlined
def long_number(data: Bytes, at: Number, end: Number, longest: Number) -> tuple[Number, Number]:
    """Read a varint of more than one byte."""
    last = at + longest - 1
    rest = np.uint64(_INT_REST if longest == _INT_BYTES else _LONG_REST)
    bits = np.uint64(0)
    shift = np.uint64(0)
    while at < end and at <= last:
        byte = np.uint64(item(data, at))
        bits |= (byte & np.uint64(127)) << shift
        if byte < np.uint64(128):
            if at == last and byte > rest:
                return np.int64(0), np.int64(REFUSED)
            return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), at + 1
        shift += np.uint64(7)
        at += 1
    return np.int64(0), np.int64(REFUSED)


@inlined
def is_padded(data: Bytes, at: Number, end: Number) -> bool:
    """Whether the number in these bytes could be shorter."""
    return bool(end - at > 1 and item(data, end - 1) == 0)


@inlined
def number_end(data: Bytes, at: Number, end: Number, longest: Number) -> Number:
    """The position after a number, whatever its value."""
    if at < end and item(data, at) < 128:  # noqa: PLR2004 - the continuation bit
        return at + 1
    if end - at >= WORD:
        last = zeros_below(~word(data, at) & np.uint64(HIGH_BITS)) >> np.uint64(3)
        if last < np.uint64(min(longest - 1, WORD)):
            return at + np.int64(last) + 1
    return long_number(data, at, end, longest)[1]


@inlined_early
def leaf(  # noqa: PLR0911 - one for each kind
    code: Integers, pc: Number, op: Number, data: Bytes, at: Number, end: Number
) -> tuple[Number, Number, Number]:
    """Read a value: the position after it, where its bytes or its number begin, and where its number ends."""
    if op == Op.NUMBER:
        after = number_end(data, at, end, item(code, pc + ARGUMENT))
        return after, at, after
    if op == Op.SIZED:
        size = item(code, pc + ARGUMENT)
        return (at + size if size <= end - at else np.int64(REFUSED)), at, at
    if op == Op.BOOLEAN:
        good = at < end and item(data, at) < 2  # noqa: PLR2004 - false and true
        return (at + 1 if good else np.int64(REFUSED)), at, at
    if op == Op.ENUM:
        value, after = number(data, at, end, np.int64(_INT_BYTES))
        return (after if 0 <= value < item(code, pc + ARGUMENT) else np.int64(REFUSED)), at, after
    size, mark = number(data, at, end, np.int64(_LONG_BYTES))
    if mark < 0 or size < 0 or size > end - mark:
        return np.int64(REFUSED), mark, mark
    after = mark + size
    if op == Op.TEXT and not is_text(data, mark, after, end):
        return np.int64(REFUSED), mark, mark
    return after, mark, mark


@inlined_early
def leaves(
    code: Integers, pc: Number, data: Bytes, at: Number, end: Number
) -> tuple[Number, Number, Number, Number, Number]:
    """Read values as long as the next instruction asks for one, and nothing has to be done about the last one.

    Returns:
        The instruction to go on with, the position before and after its value (the same where it asks for none; -1
        after a value that is refused), and mark and end of the number as `leaf` has them.
    """
    mark, head = at, at
    while item(code, pc) <= LAST_VALUE:
        after, mark, head = leaf(code, pc, item(code, pc), data, at, end)
        if after < 0 or (is_padded(data, at, head) and item(code, pc + KEPT)):
            return pc, at, after, mark, head
        at = after
        pc += STRIDE
    return pc, at, at, mark, head
