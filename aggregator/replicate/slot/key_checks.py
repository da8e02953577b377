"""This module checks that a key has not been replaced under its name and version.

The check values of all keys are kept at central. They are compared before the first record and whenever an epoch opens.

Invariant: pure. A replaced key is refused: it would make other tokens, and it could not open what the former key
sealed.
"""

from collections.abc import Collection, Mapping

from aggregator.config.secrets import KeyRing
from aggregator.config.subkeys import CheckedRing, another_key, check_values
from aggregator.errors import ConfigError
from aggregator.state.control import KeyCheck

Checks = Mapping[tuple[str, int], str]


def require_unreplaced(key_rings: Mapping[str, KeyRing], recorded: Checks) -> None:
    """Refuse to go on with a key that is another one than before.

    Args:
        key_rings: Key rings by name, as they are now.
        recorded: Check values by name and version.

    Raises:
        ConfigError: a key is another one than before, or cannot be read.
    """
    new_checks(key_rings, recorded)


def new_checks(key_rings: Mapping[str, KeyRing], recorded: Checks) -> list[KeyCheck]:
    """The check values that are not recorded yet; arguments and errors as of `require_unreplaced`."""
    found = [
        KeyCheck(name, version, check)
        for name, ring in sorted(key_rings.items())
        for version, check in check_values(name, ring).items()
    ]
    others = [(one.name, one.version) for one in found if recorded.get((one.name, one.version), one.check) != one.check]
    if others:
        raise another_key(others)
    return [one for one in found if (one.name, one.version) not in recorded]


def checks_of(key_rings: Mapping[str, KeyRing], recorded: Checks) -> Checks:
    """The recorded check values, and those that are still to be recorded.

    Raises:
        ConfigError: as `require_unreplaced`.
    """
    return {**recorded, **{(one.name, one.version): one.check for one in new_checks(key_rings, recorded)}}


def recorded_checks(key_rings: Mapping[str, KeyRing], recorded: Checks, used: Collection[str]) -> Checks:
    """What is recorded, for a process that delivers and records nothing: it brings no key that the hub has not used.

    Args:
        key_rings: Key rings by name.
        recorded: Check values by name and version.
        used: Names of the keys that it uses.

    Raises:
        ConfigError: as `require_unreplaced`, or such a key is not recorded: another could get its name later.
    """
    fresh = [f"{one.name} version {one.version}" for one in new_checks(key_rings, recorded) if one.name in used]
    if fresh:
        raise ConfigError(
            f"key {', '.join(fresh)}: this hub has not run with it yet",
            hint="start the hub with this configuration first: it records what tells the key from any other",
        )
    return checks_of(key_rings, recorded)


def checked_rings(key_rings: Mapping[str, KeyRing], checks: Checks) -> dict[str, KeyRing]:
    """The rings for one epoch, whose keys stay what they were when they were read."""
    return {
        name: CheckedRing(
            ring.current,
            ring.versions,
            {version: check for (other, version), check in checks.items() if other == name},
        )
        for name, ring in key_rings.items()
    }
