"""SHA-256 functions of the OpenSSL that Python itself uses: their addresses, and the keyed states of HMAC.

Invariant: every byte is hashed by OpenSSL. Only the two paddings of a key are made here (RFC 2104, section 2). A state
is as secret as its key. A static build, for example, does not export the functions. There are then no addresses, and
`cryptography` makes the tokens.
"""

import ctypes
import hashlib
from functools import cache
from typing import NamedTuple

BLOCK_BYTES, DIGEST_BYTES = 64, 32
# `sizeof(SHA256_CTX)` of openssl/sha.h: eight words of hash, two of length, sixteen of data, two of counters.
STATE_BYTES = 4 * (8 + 2 + 16 + 2)
_INNER, _OUTER = 0x36, 0x5C


class OpenSslFunctions(NamedTuple):
    """Holds the addresses of OpenSSL's functions in this process."""

    begin: int
    update: int
    finish: int


@cache
def functions() -> OpenSslFunctions | None:
    """The functions of the library behind `hashlib`; None where it does not show them."""
    try:
        import _hashlib  # noqa: PLC0415 - Python's own name for it; a static build has it in another place

        library = ctypes.CDLL(_hashlib.__file__)
        found = (getattr(library, f"SHA256_{name}") for name in ("Init", "Update", "Final"))
        return OpenSslFunctions(*(ctypes.cast(one, ctypes.c_void_p).value or 0 for one in found))
    except (ImportError, AttributeError, OSError):
        return None


def hmac_states(key: bytes, message: bytes) -> bytes | None:
    """The states of HMAC-SHA-256 after the key: the inner one, which has also taken the message's beginning; the outer.

    Args:
        key: Of any length.
        message: How every message begins.

    Returns:
        `STATE_BYTES` twice; None where there are no functions.
    """
    known = functions()
    if known is None:
        return None
    short = hashlib.sha256(key).digest() if len(key) > BLOCK_BYTES else key
    padded = short.ljust(BLOCK_BYTES, b"\0")
    begins = (bytes(byte ^ pad for byte in padded) for pad in (_INNER, _OUTER))
    return b"".join(_state(known, begin + more) for begin, more in zip(begins, (message, b""), strict=True))


def _state(known: OpenSslFunctions, begin: bytes) -> bytes:
    """The state of SHA-256 after some bytes."""
    state = ctypes.create_string_buffer(STATE_BYTES)
    ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(known.begin)(state)
    update = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)(known.update)
    update(state, begin, len(begin))
    return state.raw
