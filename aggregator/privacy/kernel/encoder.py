"""Encodes the parts of an Avro value in the same forms as the reference; the functions are inlined into the machine.

Invariant: the caller has measured the output and has room for it.
"""

import numpy as np

from aggregator.bytes_column import Bytes
from aggregator.jit import Number, inlined
from aggregator.privacy.kernel.intrinsics import copy


@inlined
def number_size(value: Number) -> Number:
    """Bytes of a number in zigzag form, shortest encoding."""
    bits = np.uint64(value << 1) ^ np.uint64(value >> 63)
    size = np.int64(1)
    while bits > np.uint64(127):
        bits >>= np.uint64(7)
        size += 1
    return size


@inlined
def put_number(value: Number, out: Bytes, at: Number) -> Number:
    """Write a number; returns the position after it."""
    bits = np.uint64(value << 1) ^ np.uint64(value >> 63)
    while bits > np.uint64(127):
        out[np.uint64(at)] = np.uint8(bits & np.uint64(127)) | np.uint8(128)
        bits >>= np.uint64(7)
        at += 1
    out[np.uint64(at)] = np.uint8(bits)
    return at + 1


@inlined
def copied(data: Bytes, start: Number, length: Number, out: Bytes, at: Number) -> Number:
    """Copy bytes; returns the position after them."""
    copy(data, start, length, out, at)
    return at + length
