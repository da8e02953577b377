"""Checks whether bytes are UTF-8, like the reference's guard; the function is inlined into the machine.

Invariant: the result equals that of Python's strict decoder, for every row of bytes.
Source: RFC 3629, section 4, whose numbers stand here as they stand there.
"""

# ruff: noqa: PLR2004 - the numbers are the table of the RFC

import numpy as np

from aggregator.bytes_column import Bytes
from aggregator.jit import Number, inlined
from aggregator.privacy.kernel.intrinsics import WORD, item, word

# These bits are set in bytes that are not ASCII.
HIGH_BITS = 0x8080808080808080


@inlined
def is_text(data: Bytes, at: Number, after: Number, end: Number) -> bool:
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
    return seen & np.uint64(HIGH_BITS) == 0 or is_utf8(data, at, after)


@inlined
def is_utf8(data: Bytes, at: Number, end: Number) -> bool:
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
