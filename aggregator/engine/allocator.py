"""This module chooses the `malloc` library for workers: one made for many threads, if the system has it.

librdkafka makes a record's message in one thread and frees it in another. glibc's own `malloc` is slowest at that
(tests/bench/results/tried.md).

Invariant: the choice is limited to libraries that the system's loader finds by itself, in folders that belong to root.
Nothing is loaded here.
"""

import re
import subprocess
from collections.abc import Callable

# In order of preference. They are equally fast, but jemalloc takes a fifth more memory. Debian's packages are
# libtcmalloc-minimal4, libmimalloc2.0 and libjemalloc2.
_FASTER = ("libtcmalloc_minimal.so.4", "libmimalloc.so.2", "libjemalloc.so.2")
_LDCONFIG = "/sbin/ldconfig"


def faster_malloc(known: Callable[[], str] | None = None) -> str | None:
    """The soname of the best library that is installed, for `LD_PRELOAD`; None if there is none.

    Args:
        known: Lists the loader's libraries, as `ldconfig -p` does.
    """
    found = set(re.findall(r"^\s*(\S+) \(", (known or _listed)(), re.MULTILINE))
    return next((soname for soname in _FASTER if soname in found), None)


def _listed() -> str:
    """The loader's own list; empty where the system has no such loader."""
    try:
        return subprocess.run(  # noqa: S603 - the system's own command
            [_LDCONFIG, "-p"], capture_output=True, text=True, timeout=5, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
