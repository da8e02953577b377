"""This module holds the compiled loops over records: messages become rows, and rows become messages.

Invariant: no message is read after it was given back. No function here waits, calls back or uses the interpreter.
Layouts are those of rdkafka.h: `rd_kafka_message_t` and, for `rd_kafka_produceva`, `rd_kafka_vu_t`.
"""

import ctypes
from typing import Any

import numpy as np
from llvmlite import binding
from numba import carray, types
from numba.core import cgutils
from numba.extending import intrinsic

from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, Number, compiled, inlined
from aggregator.kafka.native.library import AS_HEADER, AS_KEY, AS_TIMESTAMP, AS_VALUE, PARTS, UNION, Message, address

_WORD = 8
# Words of a message.
_ERR, _TOPIC, _PARTITION = (getattr(Message, name).offset // _WORD for name in ("err", "rkt", "partition"))
_VALUE, _VALUE_SIZE, _KEY, _KEY_SIZE, _OFFSET = (
    getattr(Message, name).offset // _WORD for name in ("payload", "len", "key", "key_len", "offset")
)
_MESSAGE_WORDS = ctypes.sizeof(Message) // _WORD
_HALF = 0xFFFFFFFF
# Words of a run; a run holds the records of one partition in a poll.
RUN = 10
TOPIC, PARTITION, RECORDS, KEY_BYTES, VALUE_BYTES, FIRST, LAST, AT, KEYS_AT, VALUES_AT = range(RUN)
_PARTS = len(PARTS)
_AT_TIMESTAMP, _AT_VALUE, _AT_KEY = map(PARTS.index, (AS_TIMESTAMP, AS_VALUE, AS_KEY))
# A name is searched in so many slots at most; then it counts as new. That bounds the cost of names that collide.
_LONGEST_SEARCH = 32

FLAGS = types.Array(types.boolean, 1, "C")
_READ_FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
_READ_INTEGERS = types.Array(types.int64, 1, "C", readonly=True)
CELLS = types.Tuple((BYTES, _READ_INTEGERS, _READ_FLAGS))
_OWN = types.Tuple((_READ_INTEGERS, _READ_INTEGERS, BYTES, _READ_INTEGERS))


def _external(name: str, returns: types.Type, *arguments: types.Type) -> types.ExternalFunction:
    """A function of librdkafka's for code that is compiled: found by name, so that what is compiled can be kept."""
    binding.add_symbol(name, address(name))
    return types.ExternalFunction(name, returns(*arguments))


_timestamp = _external("rd_kafka_message_timestamp", types.int64, types.int64, types.int64)
_headers = _external("rd_kafka_message_headers", types.int32, types.int64, types.int64)
_header = _external(
    "rd_kafka_header_get_all", types.int32, types.int64, types.uint64, types.int64, types.int64, types.int64
)
_destroy = _external("rd_kafka_message_destroy", types.void, types.int64)
_produce = _external("rd_kafka_produceva", types.int64, types.int64, types.int64, types.uint64)
_copy = types.ExternalFunction("memcpy", types.int64(types.int64, types.int64, types.uint64))
_unlike = types.ExternalFunction("strcmp", types.int32(types.int64, types.int64))
_length = types.ExternalFunction("strlen", types.int64(types.int64))


@intrinsic  # type: ignore[untyped-decorator]
def _pointer(_typing: Any, at: Any) -> Any:
    """Convert an integer address to a `void` pointer."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(at), generate


@inlined
def _words(at: Number) -> Number:
    """A message at an address as an array of 64-bit words."""
    return carray(_pointer(at), _MESSAGE_WORDS, np.int64)


@compiled(NUMBER, INTEGERS, NUMBER, INTEGERS, INTEGERS, INTEGERS)
def count_by_partition(messages: Number, count: Number, run_of: Number, slots: Number, runs: Number) -> Number:
    """Find out how much each partition has in a poll.

    Args:
        messages: Addresses.
        count: How many.
        run_of: Gets for each message the number of its run; -1 for what is an error.
        slots: A table of a power of two places, more than `count`, all -1.
        runs: Gets `RUN` words per run, up to `LAST`.

    Returns:
        The number of runs.
    """
    found, last = 0, -1
    for number in range(count):
        message = _words(messages[number])
        if message[_ERR] & _HALF:
            run_of[number] = -1
            continue
        topic, partition = message[_TOPIC], message[_PARTITION] & _HALF
        if last < 0 or runs[last * RUN + TOPIC] != topic or runs[last * RUN + PARTITION] != partition:
            slot = ((topic >> 4) * 31 + partition) & (slots.size - 1)
            while slots[slot] >= 0:
                last = slots[slot]
                if runs[last * RUN + TOPIC] == topic and runs[last * RUN + PARTITION] == partition:
                    break
                slot = (slot + 1) & (slots.size - 1)
            if slots[slot] < 0:
                slots[slot] = last = found
                runs[last * RUN : last * RUN + RUN] = 0
                runs[last * RUN + TOPIC], runs[last * RUN + PARTITION] = topic, partition
                runs[last * RUN + FIRST] = messages[number]
                found += 1
        run_of[number] = last
        runs[last * RUN + RECORDS] += 1
        runs[last * RUN + KEY_BYTES] += message[_KEY_SIZE]
        runs[last * RUN + VALUE_BYTES] += message[_VALUE_SIZE]
        runs[last * RUN + LAST] = messages[number]
    return found


@compiled(
    types.void, INTEGERS, NUMBER, INTEGERS, INTEGERS, OUT, INTEGERS, FLAGS, OUT, INTEGERS, FLAGS,
    INTEGERS, INTEGERS, INTEGERS,
)  # fmt: skip
def copy_records(
    messages: Number,
    count: Number,
    run_of: Number,
    runs: Number,
    keys: Number,
    key_ends: Number,
    key_nulls: Number,
    values: Number,
    value_ends: Number,
    value_nulls: Number,
    timestamps: Number,
    offsets: Number,
    headers: Number,
) -> None:
    """Copy messages into rows, run by run.

    Args:
        messages: Addresses.
        count: How many.
        run_of: From `count_by_partition`.
        runs: From `count_by_partition`; `AT`, `KEYS_AT` and `VALUES_AT` say where each run begins, and move on.
        keys: Gets all bytes of keys.
        key_ends: Gets where each key ends; a run has one number more than records, the first one filled in.
        key_nulls: Gets whether each key is None.
        values: As `keys`.
        value_ends: As `key_ends`.
        value_nulls: As `key_nulls`.
        timestamps: Gets milliseconds since 1970.
        offsets: Gets offsets.
        headers: Gets the address of each record's headers, 0 without any.
    """
    scratch = np.zeros(1, np.int64)
    for number in range(count):
        run = run_of[number]
        if run < 0:
            continue
        message, base = _words(messages[number]), run * RUN
        record = runs[base + AT]
        end = record + run + 1
        at, size = runs[base + KEYS_AT], message[_KEY_SIZE]
        _copy(keys.ctypes.data + at, message[_KEY], size)
        runs[base + KEYS_AT] = key_ends[end] = at + size
        key_nulls[record] = message[_KEY] == 0
        at, size = runs[base + VALUES_AT], message[_VALUE_SIZE]
        _copy(values.ctypes.data + at, message[_VALUE], size)
        runs[base + VALUES_AT] = value_ends[end] = at + size
        value_nulls[record] = message[_VALUE] == 0
        timestamps[record] = _timestamp(messages[number], scratch.ctypes.data)
        offsets[record] = message[_OFFSET]
        headers[record] = 0 if _headers(messages[number], scratch.ctypes.data) else scratch[0]
        runs[base + AT] = record + 1


@compiled(NUMBER, INTEGERS, INTEGERS)
def measure_headers(headers: Number, ends: Number) -> Number:
    """How many headers there are; returns the bytes of all values.

    Args:
        headers: For each record an address, 0 without any.
        ends: Gets where each record's headers end, after a first 0.
    """
    parts = np.zeros(3, np.int64)
    at, size = parts.ctypes.data, 0
    for record in range(headers.size):
        count = 0
        if headers[record]:
            while not _header(headers[record], count, at, at + _WORD, at + 2 * _WORD):
                size += parts[2]
                count += 1
        ends[record + 1] = ends[record] + count
    return size


@compiled(NUMBER, INTEGERS, INTEGERS, INTEGERS, INTEGERS, INTEGERS, OUT, INTEGERS, FLAGS)
def take_headers(
    headers: Number,
    ends: Number,
    slots: Number,
    names: Number,
    codes: Number,
    values: Number,
    value_ends: Number,
    value_nulls: Number,
) -> Number:
    """Copy headers, record by record; returns how many names there are.

    Args:
        headers: For each record an address, 0 without any.
        ends: From `measure_headers`.
        slots: A table of a power of two places, more than there are headers, all -1.
        names: Gets the address of each name in the order in which they were met; hardly any twice.
        codes: Gets for each header the place of its name in `names`.
        values: Gets all bytes of values.
        value_ends: Gets where each value ends, after a first 0.
        value_nulls: Gets whether each value is None.
    """
    parts = np.zeros(3, np.int64)
    at, place, found = parts.ctypes.data, 0, 0
    for record in range(headers.size):
        for index in range(ends[record + 1] - ends[record]):
            _header(headers[record], index, at, at + _WORD, at + 2 * _WORD)
            length = _length(parts[0])
            name, slot = carray(_pointer(parts[0]), length, np.uint8), length
            for byte in range(length):
                slot = slot * 31 + name[byte]
            code, left = -1, _LONGEST_SEARCH
            while code < 0:
                slot, left = (slot + 1) & (slots.size - 1), left - 1
                if slots[slot] < 0 or not left:
                    slots[slot] = code = found
                    names[code] = parts[0]
                    found += 1
                elif not _unlike(names[slots[slot]], parts[0]):
                    code = slots[slot]
            codes[place] = code
            _copy(values.ctypes.data + value_ends[place], parts[1], parts[2])
            value_ends[place + 1] = value_ends[place] + parts[2]
            value_nulls[place] = parts[1] == 0
            place += 1
    return found


@compiled(types.void, INTEGERS, NUMBER)
def destroy_messages(messages: Number, count: Number) -> None:
    """Give messages back to librdkafka, which frees them."""
    for number in range(count):
        _destroy(messages[number])


@inlined
def _part(union: Number, cells: Number, place: Number, at: Number) -> None:
    """Write where a cell lies, and its size, into an argument; None is no address."""
    data, ends, nulls = cells
    start = ends[place]
    if nulls.size and nulls[place]:
        union[at], union[at + 1] = 0, 0
    else:
        union[at], union[at + 1] = data.ctypes.data + start, ends[place + 1] - start


@compiled(
    NUMBER, NUMBER, INTEGERS, _READ_INTEGERS, NUMBER, CELLS, CELLS, _READ_INTEGERS, _OWN, CELLS, _READ_INTEGERS, CELLS,
    INTEGERS,
)  # fmt: skip
def produce_rows(
    client: Number,
    union: Number,
    indexes: Number,
    first: Number,
    keys: Number,
    values: Number,
    timestamps: Number,
    names: Number,
    headers: Number,
    stamped: Number,
    stamps: Number,
    error: Number,
) -> Number:
    """Queue records until one is refused.

    Args:
        client: The producer.
        union: Arguments of a call, `UNION` words each; topic, partition and flags are filled in.
        indexes: Which records, in order.
        first: Where in `indexes` to begin.
        keys: BytesColumn: bytes, ends, and which are None, empty without any.
        values: BytesColumn.
        timestamps: Milliseconds since 1970.
        names: Of the records' own headers: where each record's end, after a first 0, empty without any; for each header
            the number of its name; all names, each with a zero behind it; where each name begins.
        headers: BytesColumn: the values of these headers.
        stamped: Addresses of the names of headers that every record gets behind its own.
        stamps: BytesColumn: their values, all records' of the first name, then of the next one.
        error: Gets the error's address.

    Returns:
        Where in `indexes` the record stands that was refused; their number if none was.
    """
    own_to, codes, texts, texts_at = names
    records = keys[1].size - 1
    for place in range(first, indexes.size):
        record = indexes[place]
        union[_AT_TIMESTAMP * UNION + 1] = timestamps[record]
        _part(union, values, record, _AT_VALUE * UNION + 1)
        _part(union, keys, record, _AT_KEY * UNION + 1)
        count = _PARTS
        if own_to.size:
            for header in range(own_to[record], own_to[record + 1]):
                union[count * UNION] = AS_HEADER
                union[count * UNION + 1] = texts.ctypes.data + texts_at[codes[header]]
                _part(union, headers, header, count * UNION + 2)
                count += 1
        for stamp in range(stamped.size):
            union[count * UNION] = AS_HEADER
            union[count * UNION + 1] = stamped[stamp]
            _part(union, stamps, stamp * records + record, count * UNION + 2)
            count += 1
        error[0] = _produce(client, union.ctypes.data, count)
        if error[0]:
            return place
    return indexes.size
