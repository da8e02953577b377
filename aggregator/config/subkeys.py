"""Derives sub-keys: every use of a key except tokens gets key bytes of its own. Check values tell two keys apart.

    sub-key = HKDF-SHA-256(key, no salt, info = "aggregator/1/" ‖ purpose)        RFC 5869

Invariant: the output for one purpose, even of a chosen message, says nothing about the output for another purpose or
about a token. Only tokens are made with the key itself, because their bytes are fixed for ever.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from aggregator.config.secrets import KeyRing
from aggregator.errors import ConfigError

_INFO = b"aggregator/1/"
_CHECK_BYTES = 16


class Purpose(StrEnum):
    """The purpose of a sub-key; the words are part of its derivation."""

    DEAD_LETTER = "dead-letter"
    DATE_SHIFT = "date-shift"
    GCM = "aes-256-gcm"
    SIV = "aes-256-siv"
    CHECK = "check"
    ORIGIN = "origin"
    CHAIN = "chain"


_BYTES = {Purpose.SIV: 64, Purpose.CHECK: _CHECK_BYTES}


def subkey(material: bytes, purpose: Purpose) -> bytes:
    """Derive the key bytes for one purpose.

    Args:
        material: The bytes of one version of a key.
        purpose: Selects the bytes and their number: 64 for AES-256-SIV, else 32.
    """
    length = _BYTES.get(purpose, 32)
    return HKDF(hashes.SHA256(), length, salt=None, info=_INFO + purpose.encode()).derive(material)


@dataclass(frozen=True, slots=True)
class CheckedRing(KeyRing):
    """A key ring for one epoch: a version is read once, and must be the key that the hub has used so far.

    Attributes:
        expected: Check values by version; a version without one is not compared.
    """

    expected: Mapping[int, str] = field(default_factory=dict)
    _read: dict[int, bytes] = field(default_factory=dict, init=False, repr=False, compare=False)

    def material(self, name: str, version: int | None = None) -> bytes:
        """The bytes of one version of the key, once they are checked against its check value.

        Raises:
            ConfigError: it cannot be read, or is another key.
        """
        number = self.current if version is None else version
        if number not in self._read:
            key = KeyRing.material(self, name, number)
            if self.expected.get(number, check_value(key)) != check_value(key):
                raise another_key([(name, number)])
            self._read[number] = key
        return self._read[number]


def another_key(found: list[tuple[str, int]]) -> ConfigError:
    """The error for keys, by name and version, that differ from the earlier ones."""
    names = ", ".join(f"{name} version {version}" for name, version in found)
    return ConfigError(
        f"key {names}: another key than the one that this hub has used under that name and version",
        hint="put the former key back, or give the new one a version of its own: `current: 2, versions: {1: …, 2: …}`",
    )


def check_value(material: bytes) -> str:
    """A value that identifies a key; it reveals neither the key nor any sub-key."""
    return subkey(material, Purpose.CHECK).hex()


def check_values(name: str, ring: KeyRing) -> dict[int, str]:
    """The check value of each version of a key.

    Raises:
        ConfigError: a version cannot be read.
    """
    return {version: check_value(ring.material(name, version)) for version, _ in ring.versions}
