"""The byte format of encrypted values: an envelope names its cipher and its key, and holds the sealed value.

    envelope = cipher (3 = AES-256-GCM, 4 = AES-256-SIV) ‖ version ‖ u16be(len(name)) ‖ name ‖ sealed
    sealed   = nonce (12 bytes) ‖ ciphertext ‖ tag (16)    for GCM (NIST SP 800-38D)
             = synthetic iv (16) ‖ ciphertext              for SIV (RFC 5297), with `aad` as its one component
    aad      = u32be(len(topic)) ‖ topic ‖ path            edge topic, and the path as the plan's report names it

The cipher's key is the sub-key of its purpose (`config.subkeys`). Ciphers 1 and 2 are the same two ciphers under the
key itself, as earlier envelopes were sealed. They can still be opened, but new envelopes never use them.
Invariant: an envelope opens only with its own key, and only at its own topic and path. Random nonces of GCM are safe
for 2³² values under one key version, which `replicate/epoch/key_usage.py` counts.
"""

import struct
from collections.abc import Callable
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV

from aggregator.config.subkeys import Purpose, subkey

FORMER_GCM, FORMER_SIV = 1, 2
GCM, SIV = 3, 4
_PURPOSES = {GCM: Purpose.GCM, SIV: Purpose.SIV}
GCM_KEY_BYTES, SIV_KEY_BYTES = 32, 64
NONCE_BYTES = 12
_HEAD = struct.Struct(">BBH")


class Envelope(NamedTuple):
    """An envelope, taken apart but not opened."""

    cipher: int
    version: int
    key: str
    sealed: bytes


def aad(topic: str, path: str) -> bytes:
    """The place that an envelope belongs to."""
    name = topic.encode()
    return struct.pack(">I", len(name)) + name + path.encode()


def head(cipher: int, version: int, key: str) -> bytes:
    """The head of an envelope, which precedes the sealed value."""
    name = key.encode()
    return _HEAD.pack(cipher, version, len(name)) + name


def seal_gcm(key: bytes, plain: bytes, place: bytes, nonce: bytes) -> bytes:
    """AES-256-GCM; one nonce serves one value."""
    return nonce + AESGCM(key).encrypt(nonce, plain, place)


def seal_siv(key: bytes, plain: bytes, place: bytes) -> bytes:
    """Encrypt a value with AES-256-SIV, bound to its place."""
    return AESSIV(key).encrypt(plain, [place])


def parse(data: bytes) -> Envelope:
    """Split an envelope into its cipher, its key and the sealed value.

    Raises:
        ValueError: it is none.
    """
    if len(data) < _HEAD.size:
        raise ValueError("not an envelope: too short")
    cipher, version, length = _HEAD.unpack_from(data)
    name, sealed = data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]
    if cipher not in (FORMER_GCM, FORMER_SIV, GCM, SIV) or len(name) < length:
        raise ValueError("not an envelope: unknown cipher, or cut")
    return Envelope(cipher, version, name.decode(), sealed)


def opened(data: bytes, key_of: Callable[[str, int], bytes], place: bytes) -> bytes:
    """Decrypt the value in an envelope.

    Args:
        data: The envelope.
        key_of: Key bytes by name and version.
        place: The place from `aad`.

    Raises:
        ValueError: it is no envelope, or was not sealed with this key for this place.
    """
    envelope = parse(data)
    key, sealed = key_of(envelope.key, envelope.version), envelope.sealed
    if purpose := _PURPOSES.get(envelope.cipher):
        key = subkey(key, purpose)
    try:
        if envelope.cipher in (FORMER_SIV, SIV):
            return AESSIV(key).decrypt(sealed, [place])
        return AESGCM(key).decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place)
    except InvalidTag:
        raise ValueError("the envelope was sealed with another key, for another place, or was changed") from None
