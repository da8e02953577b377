"""Tokens: keyed pseudonyms, the same for one identifier in every region and format. Their bytes never change.

    message = u32be(len(domain)) ‖ domain ‖ canonical value
    T       = first 16 bytes of HMAC-SHA-256(key, message)

Invariant: the canonical value is UTF-8 text for text, decimal text for integers, lower-case text for uuids, and the raw
bytes otherwise. The format is fixed for ever once it is released. Pseudonymised data is still personal data: the holder
of the key can make every token again.
"""

import base64
import struct
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from cryptography.hazmat.primitives import hashes, hmac

from aggregator.budgets import NORMALIZED_SIGNS
from aggregator.privacy.fields.leaf import Value
from aggregator.privacy.tokens.composition import composed
from aggregator.privacy.tokens.sha256 import hmac_states

Normalize = Literal["none", "trim", "casefold", "email", "e164", "digits"]
Encode = Literal["hex", "base64url", "uuid", "bytes"]
TOKEN_BYTES = 16
MAC_BYTES = 32
HIGHEST_VERSION = 255
# The two hexadecimal digits of every byte, in memory order.
_DIGITS = np.frombuffer(bytes(range(256)).hex().encode(), np.uint16)
_PIECE = 4096


def _digits(text: str) -> str:
    """Every decimal digit of any script, in ASCII."""
    return _mapped(text, lambda sign: str(unicodedata.digit(sign)) if sign.isdecimal() else "")


def _mapped(text: str, change: Callable[[str], str]) -> str:
    """Sign by sign, a piece at a time: a list of all signs would take much more room than the text."""
    pieces = (text[at : at + _PIECE] for at in range(0, len(text), _PIECE))
    return "".join("".join(map(change, piece)) for piece in pieces)


def _dialled(sign: str) -> str:
    return str(unicodedata.digit(sign)) if sign.isdecimal() else sign if sign == "+" else ""


def _casefold(text: str) -> str:
    if text.isascii():  # the same, at a tenth of the cost
        return text.lower()
    return composed(composed(text).casefold())


def _e164(text: str) -> str:
    """`+` and digits; a national number stays national, because its country would be a guess."""
    plain = _mapped(text, _dialled)
    if plain.startswith("00"):
        plain = "+" + plain[2:]
    return plain[:1] + plain[1:].replace("+", "")


_NORMAL: dict[Normalize, Callable[[str], str]] = {
    "none": lambda text: text,
    "trim": str.strip,
    "casefold": _casefold,
    "email": lambda text: _casefold(text.strip()),
    "e164": _e164,
    "digits": _digits,
}


def normalized(text: str, how: Normalize) -> str:
    """The canonical text; where nothing would be left, the trimmed text, so that different people stay different.

    Raises:
        ValueError: it is longer than any identifier.
    """
    if how != "none" and len(text) > NORMALIZED_SIGNS.limit:
        raise ValueError("a text has more characters than are normalised")
    return _NORMAL[how](text) or text.strip()


def canonical(value: Value, how: Normalize = "none") -> bytes:
    """The bytes that a token is made of."""
    if isinstance(value, bytes):
        return value
    return normalized(str(value), how).encode()


def uuid_text(raw: bytes) -> str:
    """Sixteen bytes as the text of a uuid (RFC 9562, section 4)."""
    digits = raw.hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _as_uuid(token: bytes) -> str:
    """RFC 9562, section 5.8: version 8, variant 10."""
    number = int.from_bytes(token)
    number = number & ~(0xF << 76) | 0x8 << 76
    return uuid_text((number & ~(0x3 << 62) | 0x2 << 62).to_bytes(TOKEN_BYTES))


def _prefix(version: int) -> bytes:
    return f"v{version}_".encode()


def _hex(version: int, macs: Sequence[bytes]) -> list[bytes]:
    """All at once, by a table of two digits per byte."""
    prefix = _prefix(version)
    token = np.dtype([("prefix", np.uint8, len(prefix)), ("digits", np.uint16, TOKEN_BYTES)])
    made = np.empty(len(macs), token)
    made["prefix"] = np.frombuffer(prefix, np.uint8)
    made["digits"] = _DIGITS[np.frombuffer(b"".join(macs), np.uint8).reshape(-1, MAC_BYTES)[:, :TOKEN_BYTES]]
    texts: list[bytes] = made.view(f"S{token.itemsize}").tolist()
    return texts


def _base64url(version: int, macs: Sequence[bytes]) -> list[Value]:
    texts = [base64.urlsafe_b64encode(mac[:TOKEN_BYTES]).rstrip(b"=").decode() for mac in macs]
    return [f"v{version}_{text}" for text in texts]


_ENCODE: dict[Encode, Callable[[int, Sequence[bytes]], list[Value]]] = {
    "hex": lambda version, macs: [token.decode() for token in _hex(version, macs)],
    "base64url": _base64url,
    "bytes": lambda version, macs: [bytes([version]) + mac[:TOKEN_BYTES] for mac in macs],
    "uuid": lambda _, macs: [_as_uuid(mac[:TOKEN_BYTES]) for mac in macs],
}


class HmacTokenSpec(NamedTuple):
    """What hexadecimal tokens are made of, for who makes them without Python; as secret as the key.

    Attributes:
        states: Of the hash, as `sha256.hmac_states` has them.
        prefix: Of every token.
        normalize: What makes two spellings one.
    """

    states: bytes
    prefix: bytes
    normalize: Normalize

    def __repr__(self) -> str:
        return f"HmacTokenSpec({self.prefix!r}, {self.normalize!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("what tokens are made of does not leave the process")


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Makes tokens of one key version and domain; the key is hashed in once, then copied.

    Args:
        material: Key bytes; not kept, and not in the repr.
        version: Number of the key, 1 to 255.
        domain: Tokens of different domains cannot be joined.
        normalize: What makes two spellings one.
        encode: What a token looks like.
    """

    material: bytes = field(repr=False, compare=False)
    version: int
    domain: str
    normalize: Normalize = "none"
    encode: Encode = "hex"
    _keyed: Any = field(init=False, repr=False, compare=False)
    _states: bytes | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.version <= HIGHEST_VERSION:
            raise ValueError("a key version is 1 to 255: it is one byte of a token")
        domain = self.domain.encode()
        begin = struct.pack(">I", len(domain)) + domain
        mac = hmac.HMAC(self.material, hashes.SHA256())
        mac.update(begin)
        object.__setattr__(self, "_keyed", mac)
        object.__setattr__(self, "_states", hmac_states(self.material, begin))
        object.__setattr__(self, "material", b"")

    def tokens(self, values: Sequence[Value]) -> list[Value]:
        """The tokens of values, in their order."""
        return _ENCODE[self.encode](self.version, self._macs(values))

    def hex_tokens(self, values: Sequence[Value]) -> list[bytes]:
        """The tokens in UTF-8, for the encoding `hex`; no text is made on the way."""
        return _hex(self.version, self._macs(values))

    @property
    def of_hex(self) -> HmacTokenSpec | None:
        """What tokens are made of; None where they are not hexadecimal, or OpenSSL does not show its functions."""
        if self.encode != "hex" or self._states is None:
            return None
        return HmacTokenSpec(self._states, _prefix(self.version), self.normalize)

    def token(self, value: Value) -> Value:
        """The token of one value."""
        return self.tokens([value])[0]

    def _macs(self, values: Sequence[Value]) -> list[bytes]:
        begin, macs = self._keyed.copy, []
        for message in self._messages(values):
            mac = begin()
            mac.update(message)
            macs.append(mac.finalize())
        return macs

    def _messages(self, values: Sequence[Value]) -> list[bytes]:
        if self.normalize == "none":
            return [value if isinstance(value, bytes) else str(value).encode() for value in values]
        return [canonical(value, self.normalize) for value in values]
