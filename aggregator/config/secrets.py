"""Secrets by reference, `env:NAME` or `file:/path`: the reference is passed on, and its user reads the value.

Invariant: no value is kept in a model, shown in a repr, or named in an error.
"""

import base64
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path

from aggregator.errors import ConfigError
from aggregator.regular_files import read_text

# This variable names the in-memory file of the variables that a hub's workers may resolve (`engine/environment.py`).
HANDED_ON = "AGGREGATOR_SECRETS"
MINIMUM_KEY_BYTES = 32
HIGHEST_VERSION = 255
# 32 random bytes hold about thirty distinct values. A random key with fewer than this number occurs once in 2¹²⁰ keys.
_DISTINCT_BYTES = 8


@dataclass(frozen=True, slots=True)
class SecretRef:
    """`env:NAME` or `file:PATH`; a relative path is made absolute by the loader."""

    scheme: str
    target: str

    def __str__(self) -> str:
        return f"{self.scheme}:{self.target}"

    def resolve(self, environ: Mapping[str, str] | None = None) -> str:
        """Read the secret, without its trailing newline.

        Raises:
            ConfigError: the variable or the file is not there or is empty.
        """
        if self.scheme == "env":
            found = os.environ if environ is None else environ
            value = found.get(self.target) or _handed_on(found).get(self.target, "")
            if not value:
                raise ConfigError(f"secret {self}: the variable is not set", hint=f"export {self.target}, or use file:")
            return value
        try:
            value = read_text(self.target).rstrip("\r\n")
        except OSError as error:
            raise ConfigError(f"secret {self}: {error.strerror}", hint="create the file, readable by the hub") from None
        except UnicodeDecodeError:
            raise ConfigError(f"secret {self}: the file is not text", hint="write the secret into it") from None
        if not value:
            raise ConfigError(f"secret {self}: the file is empty", hint="write the secret into it")
        return value


def _handed_on(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that the process which started Spark keeps for its workers; none anywhere else."""
    place = environ.get(HANDED_ON)
    try:
        found: dict[str, str] = json.loads(Path(place).read_bytes()) if place else {}
    except OSError:  # that process has ended
        return {}
    return found


def secret_ref(value: object) -> SecretRef:
    """Read a reference to a secret.

    Raises:
        ValueError: a value in clear, or an unknown scheme.
    """
    if isinstance(value, SecretRef):
        return value
    if isinstance(value, str):
        scheme, separator, target = value.partition(":")
        if separator and scheme in ("env", "file") and target:
            return SecretRef(scheme, target)
    raise ValueError("a secret is a reference, `env:NAME` or `file:path`, never a value in clear")


@dataclass(frozen=True, slots=True)
class KeyRing:
    """Versioned references of one named key; `current` makes new tokens."""

    current: int
    versions: tuple[tuple[int, SecretRef], ...]

    def material(self, name: str, version: int | None = None) -> bytes:
        """Key bytes of one version (the current one by default): base64 of at least 32 bytes, as they were drawn.

        Raises:
            ConfigError: missing, not base64, too short, typed instead of drawn, or in a file that everybody may read or
                write; names the reference, never the value.
        """
        reference = dict(self.versions)[self.current if version is None else version]
        _refuse_open_file(name, reference)
        try:
            key = base64.b64decode(reference.resolve(), validate=True)
        except ValueError:  # binascii.Error, and letters that are not ASCII
            raise ConfigError(f"key {name} ({reference}) is not base64", hint="openssl rand -base64 32") from None
        if len(key) < MINIMUM_KEY_BYTES:
            raise ConfigError(
                f"key {name} ({reference}) has {len(key)} bytes; {MINIMUM_KEY_BYTES} is the least",
                hint="openssl rand -base64 32",
            )
        if len(set(key)) < _DISTINCT_BYTES:
            raise ConfigError(
                f"key {name} ({reference}) is a few bytes again and again, which anybody can guess",
                hint="openssl rand -base64 32",
            )
        return key


def ring_of(name: str, key_rings: Mapping[str, KeyRing]) -> KeyRing:
    """The key ring of a key by its name.

    Raises:
        ConfigError: it is not configured.
    """
    if name not in key_rings:
        raise ConfigError(f"key {name} is not configured", hint=f"add `{name}:` under `keys:`")
    return key_rings[name]


def _refuse_open_file(name: str, reference: SecretRef) -> None:
    """Refuse a key's file that others may read or write; one that is not there is no matter of this.

    A key that every user of the machine may read is no secret of the hub; who may replace it decides every token. The
    group may read: that is how a cluster hands a secret to a process that is not root.
    """
    if reference.scheme != "file":
        return
    try:
        mode = Path(reference.target).stat().st_mode
    except OSError:
        return  # `resolve` says so
    if mode & (stat.S_IRWXO | stat.S_IWGRP):
        raise ConfigError(
            f"key {name} ({reference}) lies in a file that others may read or write (mode {stat.S_IMODE(mode):o})",
            hint=f"chmod 600 {reference.target}; of a Kubernetes secret: defaultMode: 0440",
        )


def key_ring(value: object) -> KeyRing:
    """Read `env:…` (version 1) or `{current: 2, versions: {1: "file:…", 2: "env:…"}}`.

    Raises:
        ValueError: another shape, or a current version that is not listed.
    """
    if isinstance(value, KeyRing):
        return value
    if isinstance(value, Mapping):
        if set(value) != {"current", "versions"} or not isinstance(value["versions"], Mapping):
            raise ValueError("a versioned key has exactly `current` and `versions`")
        pairs = ((_version(number), secret_ref(ref)) for number, ref in value["versions"].items())
        versions = tuple(sorted(pairs, key=itemgetter(0)))
        current = _version(value["current"])
        if current not in dict(versions) or len(dict(versions)) != len(versions):
            raise ValueError("`current` names one of `versions`, and each version is there once")
        return KeyRing(current, versions)
    return KeyRing(1, ((1, secret_ref(value)),))


def _version(value: object) -> int:
    """A key version is part of every token, in one byte."""
    text = str(value)
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= HIGHEST_VERSION:
        raise ValueError(f"a key version is a number from 1 to {HIGHEST_VERSION}")
    return int(text)
