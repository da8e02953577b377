"""Makes tokens of values directly in a batch's memory: OpenSSL hashes them, without a Python object for each value.

Invariant: a token equals what `Tokenizer` makes of the same value, byte for byte. A value that must be normalised is
left to `Tokenizer` if it is long or not ASCII.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from aggregator.bytes_column import Bytes, BytesColumn, Integers, ends_of
from aggregator.jit import BYTES, INTEGERS, NUMBER, OUT, Number, compiled, inlined
from aggregator.privacy.kernel.encoder import copied
from aggregator.privacy.kernel.intrinsics import finish, item, update
from aggregator.privacy.kernel.machine import SPAN
from aggregator.privacy.kernel.output import FORM, LENGTH, PREFIXED, RESULT, START
from aggregator.privacy.tokens.sha256 import DIGEST_BYTES, STATE_BYTES, functions
from aggregator.privacy.tokens.tokens import TOKEN_BYTES, HmacTokenSpec, Normalize

NOTHING = -1
# The bits of the normalisations that the machine does itself; None: it leaves the value to Python.
_TRIM, _FOLD = 1, 2
_NORMAL: dict[Normalize, int] = {"none": 0, "trim": _TRIM, "casefold": _FOLD, "email": _TRIM | _FOLD}
# Longer texts that must be normalised are left to Python; a whole number has at most 20 characters.
_LONGEST = 256
# The layout of one kind of token: both states, the normalisation, the length of the prefix, the prefix.
_HOW, _SIZE, _PREFIX = 2 * STATE_BYTES, 2 * STATE_BYTES + 1, 2 * STATE_BYTES + 2
_PREFIX_BYTES = len("v255_")
_KIND_BYTES = _PREFIX + _PREFIX_BYTES
_MAX_BYTES = _PREFIX_BYTES + 2 * TOKEN_BYTES
_ASCII = range(0x80)
_DIGITS, _MINUS = np.frombuffer(b"0123456789abcdef", np.uint8), np.uint8(ord("-"))
# The result of `str.lower` for each ASCII character, and whether `str.strip` removes it.
_FOLDED = np.frombuffer(bytes(_ASCII).lower(), np.uint8)
_SPACES = np.array([chr(byte).isspace() for byte in _ASCII])


class SpanTokens(NamedTuple):
    """Holds the tokens of the spans of a batch.

    Attributes:
        which: For each span the number of its token; `NOTHING` for one that is none of a token's, or is left.
        rows: `RESULT` integers for each token.
        made: The bytes of the tokens.
    """

    which: Integers
    rows: Integers
    made: Bytes


_NONE = np.zeros((0, RESULT), np.int64), np.zeros(0, np.uint8)


@inlined
def _digits(number: Number, out: Bytes) -> Number:
    """Write a whole number in decimal at the end of the row; returns where it begins."""
    at = np.int64(out.size)
    is_negative = number < 0
    rest = np.uint64(-number) if is_negative else np.uint64(number)
    while True:
        at -= 1
        out[np.uint64(at)] = _DIGITS[rest % np.uint64(10)]
        rest //= np.uint64(10)
        if rest == 0:
            break
    if is_negative:
        at -= 1
        out[np.uint64(at)] = _MINUS
    return at


@inlined
def _normalised(data: Bytes, start: Number, length: Number, how: Number, out: Bytes) -> Number:
    """Write an ASCII text normalised at the beginning of the row; returns its length, `NOTHING` for another text."""
    if length > out.size:
        return np.int64(NOTHING)
    end = start + length
    for at in range(start, end):
        if item(data, at) >= _FOLDED.size:
            return np.int64(NOTHING)
    if how & _TRIM:
        while start < end and _SPACES[item(data, start)]:
            start += 1
        while start < end and _SPACES[item(data, end - 1)]:
            end -= 1
    for at in range(start, end):
        byte = item(data, at)
        out[np.uint64(at - start)] = _FOLDED[byte] if how & _FOLD else byte
    return end - start


@inlined
def _put_token(kinds: Bytes, kind: Number, digest: Bytes, made: Bytes, at: Number) -> Number:
    """Write prefix and hexadecimal digits; returns the position after them."""
    at = copied(kinds, kind + _PREFIX, np.int64(item(kinds, kind + _SIZE)), made, at)
    for half in range(2 * TOKEN_BYTES):
        digit = np.int64(item(digest, half >> 1)) >> (0 if half & 1 else 4) & 15
        made[np.uint64(at + half)] = _DIGITS[digit]
    return at + 2 * TOKEN_BYTES


@compiled(NUMBER, BYTES, INTEGERS, INTEGERS, BYTES, INTEGERS, INTEGERS, INTEGERS, OUT)
def put_tokens(
    data: Bytes, spans: Integers, kinds_of: Integers, kinds: Bytes, library: Integers,
    which: Integers, rows: Integers, made: Bytes,
) -> Number:  # fmt: skip
    """Make the tokens of a batch.

    Args:
        data: The batch.
        spans: `SPAN` integers each, operator calls first.
        kinds_of: For each call where its kind of token begins in `kinds`; `NOTHING` for one that makes none.
        kinds: `_KIND_BYTES` each.
        library: Addresses of the hash function's update and end.
        which: Gets for each span the number of its token.
        rows: Gets `RESULT` integers for each token.
        made: Gets their bytes.

    Returns:
        How many there are.
    """
    text, digest = np.empty(_LONGEST, np.uint8), np.empty(DIGEST_BYTES, np.uint8)
    state = np.empty(STATE_BYTES, np.uint8)
    count, used = np.int64(0), np.int64(0)
    for span in range(which.size):
        call, start, length = spans[SPAN * span], spans[SPAN * span + 1], spans[SPAN * span + 2]
        kind = kinds_of[call] if call < kinds_of.size else np.int64(NOTHING)
        which[span] = NOTHING
        if kind == NOTHING:
            continue
        how = np.int64(item(kinds, kind + _HOW))
        if how and length >= 0:
            size = _normalised(data, start, length, how, text)
            if size == NOTHING:
                continue
            copied(kinds, kind, STATE_BYTES, state, 0)
            update(library[0], state, text, 0, size)
        elif length >= 0:
            copied(kinds, kind, STATE_BYTES, state, 0)
            update(library[0], state, data, start, length)
        else:
            copied(kinds, kind, STATE_BYTES, state, 0)
            first = _digits(start, text)
            update(library[0], state, text, first, text.size - first)
        finish(library[1], state, digest)
        copied(kinds, kind + STATE_BYTES, STATE_BYTES, state, 0)
        update(library[0], state, digest, 0, DIGEST_BYTES)
        finish(library[1], state, digest)
        row = RESULT * count
        end = _put_token(kinds, kind, digest, made, used)
        rows[row + FORM], rows[row + START], rows[row + LENGTH] = PREFIXED, used, end - used
        which[span], used = count, end
        count += 1
    return count


class TokenCalls:
    """Those operator calls of a plan whose results are tokens that the machine makes.

    Args:
        calls: For each operator call what its tokens are made of; None for one that makes none, or none of these.
    """

    def __init__(self, calls: Sequence[HmacTokenSpec | None]) -> None:
        kinds, known = bytearray(), functions()
        self._kinds_of = np.full(len(calls), NOTHING, np.int64)
        for call, one in enumerate(calls):
            if known is not None and one is not None and one.normalize in _NORMAL:
                self._kinds_of[call] = len(kinds)
                prefix = one.prefix.ljust(_PREFIX_BYTES, b"\0")
                kinds += one.states + bytes([_NORMAL[one.normalize], len(one.prefix)]) + prefix
        self._kinds = np.frombuffer(bytes(kinds), np.uint8)
        self._library = np.array([known.update, known.finish] if known else [0, 0], np.int64)

    def __bool__(self) -> bool:
        """Whether there is any operator call that makes tokens."""
        return bool(len(self._kinds))

    def of(self, data: Bytes, spans: Integers) -> SpanTokens:
        """The tokens of a batch; `spans` has `SPAN` integers each."""
        if not self:
            return SpanTokens(np.full(len(spans) // SPAN, NOTHING, np.int64), *_NONE)
        which = np.empty(len(spans) // SPAN, np.int64)
        rows, made = np.empty((len(which), RESULT), np.int64), np.empty(_MAX_BYTES * len(which), np.uint8)
        count = put_tokens(data, spans, self._kinds_of, self._kinds, self._library, which, rows.reshape(-1), made)
        rows = rows[:count]
        return SpanTokens(which, rows, made[: int(rows[-1, START] + rows[-1, LENGTH]) if count else 0])


class KeyTokens:
    """Tokens of whole record keys, as texts or bytes.

    Args:
        token_spec: What they are made of.
    """

    def __init__(self, token_spec: HmacTokenSpec) -> None:
        self._tokens = TokenCalls([token_spec])

    def of(self, keys: BytesColumn) -> BytesColumn | None:
        """The token of every key that there is; None where one is left to Python, and with it all of them."""
        there = slice(None) if keys.nulls is None else ~keys.nulls
        starts, sizes = keys.ends[:-1][there], keys.sizes[there]
        spans = np.zeros((len(starts), SPAN), np.int64)
        spans[:, 1], spans[:, 2] = starts, sizes
        tokens = self._tokens.of(keys.data, spans.reshape(-1))
        if len(tokens.rows) < len(starts):
            return None
        lengths = np.zeros(len(keys), np.int64)
        lengths[there] = tokens.rows[:, LENGTH]
        return BytesColumn(tokens.made, ends_of(lengths), keys.nulls)
