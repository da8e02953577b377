"""Tokens: keyed pseudonyms, the same for one identifier in every region and format. Fixed for ever once released.

    message = u32be(len(domain)) ‖ domain ‖ canonical value
    T       = first 16 bytes of HMAC-SHA-256(key, message)

Invariant: the canonical value is UTF-8 text for text, decimal text for integers, lower-case text for uuids, and the
raw bytes otherwise. Pseudonymised data is still personal data: whoever holds the key can make every token again.
"""

import base64
import hmac
import re
import struct
import unicodedata
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from aggregator.privacy.leaf import Value
from aggregator.privacy.rules import Encode, Normalize

TOKEN_BYTES = 16
HIGHEST_VERSION = 255
_NOT_DIALLED = re.compile(r"[^0-9+]")


def _digits(text: str) -> str:
    """Every decimal digit of any script, in ASCII."""
    return "".join(str(unicodedata.digit(sign)) for sign in text if sign.isdecimal())


def _casefold(text: str) -> str:
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold())


def _e164(text: str) -> str:
    """`+` and digits; a national number stays national, because its country would be a guess."""
    plain = _NOT_DIALLED.sub("", "".join(str(unicodedata.digit(s)) if s.isdecimal() else s for s in text))
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
    """The canonical text; where nothing would be left, the trimmed text, so that different people stay different."""
    return _NORMAL[how](text) or text.strip()


def canonical(value: Value, how: Normalize = "none") -> bytes:
    """The bytes that a token is made of."""
    if isinstance(value, bytes):
        return value
    return normalized(str(value), how).encode()


def _as_uuid(token: bytes) -> uuid.UUID:
    """RFC 9562, section 5.8: version 8, variant 10."""
    number = int.from_bytes(token)
    number = number & ~(0xF << 76) | 0x8 << 76
    return uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62)


_ENCODE: dict[Encode, Callable[[int, bytes], Value]] = {
    "hex": lambda version, token: f"v{version}_{token.hex()}",
    "base64url": lambda version, token: f"v{version}_{base64.urlsafe_b64encode(token).rstrip(b'=').decode()}",
    "bytes": lambda version, token: bytes([version]) + token,
    "uuid": lambda _, token: str(_as_uuid(token)),
}


@dataclass(frozen=True, slots=True)
class Tokenizer:
    """Makes tokens of one key version and domain; the key is hashed in once, then copied.

    Args:
        material: Key bytes; not kept, and not in the repr.
        version: Number of the key, 1 to 255.
        domain: Tokens of different domains can not be joined.
        normalize: What makes two spellings one.
        encode: What a token looks like.
    """

    material: bytes = field(repr=False, compare=False)
    version: int
    domain: str
    normalize: Normalize = "none"
    encode: Encode = "hex"
    _keyed: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 < self.version <= HIGHEST_VERSION:
            raise ValueError("a key version is 1 to 255: it is one byte of a token")
        domain = self.domain.encode()
        keyed = hmac.new(self.material, struct.pack(">I", len(domain)) + domain, "sha256")
        object.__setattr__(self, "_keyed", keyed)
        object.__setattr__(self, "material", b"")

    def token(self, value: Value) -> Value:
        """The token of one value."""
        keyed = self._keyed.copy()
        keyed.update(canonical(value, self.normalize))
        return _ENCODE[self.encode](self.version, keyed.digest()[:TOKEN_BYTES])
