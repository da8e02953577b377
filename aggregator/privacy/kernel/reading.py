"""Reads the parts of an Avro value: numbers, sizes, text; inlined into the machine.

Invariant: no byte at or after `end` is looked at. Refuses what the reference's guard refuses, by a position of -1.
"""

import numpy as np

from aggregator.privacy.kernel.jit import inlined
from aggregator.privacy.kernel.opcodes import ARGUMENT, Op
from aggregator.privacy.kernel.words import WORD, item, word, zeros_below

REFUSED = -1
_INT_BYTES, _LONG_BYTES = 5, 10
# What the last byte of a number of the longest form may hold: the rest of 32, or of 64 bits.
_INT_REST, _LONG_REST = 15, 1
_HIGH_BITS = 0x8080808080808080


@inlined
def number(data, at, end, longest):
    """A zigzag number of at most `longest` bytes, and the position after it."""
    if at < end:
        byte = np.int64(item(data, at))
        if byte < 128:  # noqa: PLR2004 - the continuation bit
            return (byte >> 1) ^ -(byte & 1), at + 1
    return long_number(data, at, end, longest)


@inlined
def long_number(data, at, end, longest):
    """A number of more than one byte."""
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
def is_padded(data, at, end):
    """Whether the number in these bytes could be shorter."""
    return end - at > 1 and item(data, end - 1) == 0


@inlined
def number_end(data, at, end, longest):
    """The position after a number, whatever its value."""
    if at < end and item(data, at) < 128:  # noqa: PLR2004 - the continuation bit
        return at + 1
    if end - at >= WORD:
        last = zeros_below(~word(data, at) & np.uint64(_HIGH_BITS)) >> np.uint64(3)
        if last < np.uint64(min(longest - 1, WORD)):
            return at + np.int64(last) + 1
    return long_number(data, at, end, longest)[1]


@inlined
def leaf(code, pc, op, data, at, end):
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


@inlined
def is_text(data, at, after, end):
    """Whether these bytes are UTF-8; nearly always they are ASCII, which eight bytes at a time show."""
    seen = np.uint64(0)
    place = at
    while place + WORD <= after:
        seen |= word(data, place)
        place += WORD
    if place < after and end - place >= WORD:  # the last bytes, and some of the record that are not looked at
        seen |= word(data, place) << np.uint64(8 * (WORD - after + place))
        place = after
    while place < after:
        seen |= np.uint64(item(data, place))
        place += 1
    return seen & np.uint64(_HIGH_BITS) == 0 or is_utf8(data, at, after)


@inlined
def is_utf8(data, at, end):
    """UTF-8 as RFC 3629 has it: shortest forms only, no surrogates, nothing above U+10FFFF."""
    while at < end:
        first = np.int64(item(data, at))
        at += 1
        if first < 0x80:
            continue
        more = 1 if 0xC2 <= first <= 0xDF else 2 if 0xE0 <= first <= 0xEF else 3 if 0xF0 <= first <= 0xF4 else 0
        if more == 0 or more > end - at:
            return False
        low, high = 0x80, 0xBF
        if first == 0xE0:
            low = 0xA0
        elif first == 0xED:
            high = 0x9F
        elif first == 0xF0:
            low = 0x90
        elif first == 0xF4:
            high = 0x8F
        for _ in range(more):
            byte = np.int64(item(data, at))
            if byte < low or byte > high:
                return False
            low, high = 0x80, 0xBF
            at += 1
    return True
