"""Checks whether this machine is fit to run the hub: Java, disks, and the keys that the policies use.

Invariant: pure. No finding holds a key or a part of one.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from shlex import quote

from aggregator.doctor.finding import MACHINE, Finding, failed, listed, ok, warning

_LITTLE = 1024**3
_TOO_LITTLE = 128 * 1024**2
_MIB = 1024**2


@dataclass(frozen=True, slots=True)
class Trouble:
    """Says what is wrong, and how to mend it."""

    what: str
    next: str


@dataclass(frozen=True, slots=True)
class Disk:
    """A folder that the hub writes to.

    Attributes:
        purpose: The contents, in words.
        setting: The setting that names the folder.
        free: Bytes.
        is_writable: Whether this user may write there.
        there: The folder itself, or the one in which it would be made.
    """

    purpose: str
    setting: str
    free: int
    is_writable: bool
    there: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Holds what was found on this machine.

    Attributes:
        java: A description of the Java that was found, or what is wrong with it.
        disks: The disks by folder.
        keys: Names of the keys, each with what is wrong with it, if anything is.
    """

    java: str | Trouble
    disks: Mapping[str, Disk] = field(default_factory=dict)
    keys: Mapping[str, Trouble | None] = field(default_factory=dict)


def findings(seen: Machine) -> Iterator[Finding]:
    """The findings about this machine."""
    if isinstance(seen.java, Trouble):
        yield failed(MACHINE, "java", seen.java.what, seen.java.next)
    else:
        yield ok(MACHINE, "java", seen.java)
    for folder, disk in seen.disks.items():
        yield _disk(folder, disk)
    bad = {name: one for name, one in seen.keys.items() if one is not None}
    for one in bad.values():
        yield failed(MACHINE, "keys", one.what, one.next)
    if seen.keys and not bad:
        yield ok(MACHINE, "keys", f"can be read: {listed(seen.keys)}")


def _disk(folder: str, disk: Disk) -> Finding:
    where = f"{disk.purpose} ({folder})"
    if not disk.is_writable:
        then = f'sudo chown "$(id -un)" {quote(disk.there or folder)}; or set {disk.setting} to a folder of this user'
        return failed(MACHINE, "disk", f"{where} cannot be written by this user", then)
    free = f"{disk.free // _MIB:,} MB are free for {where}"
    if disk.free >= _LITTLE:
        return ok(MACHINE, "disk", free)
    return (failed if disk.free < _TOO_LITTLE else warning)(
        MACHINE,
        "disk",
        free,
        f"free 1 GB at least: du -xh {quote(folder)} | sort -h | tail; or set {disk.setting} to another disk",
    )
