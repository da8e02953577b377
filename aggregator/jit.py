"""This module compiles functions to machine code before their first call, once per machine, and keeps the code on disk.

Invariant: code is loaded only from a folder that no other user can write to or replace (`code_cache`). Every state of
the sources has its own folder, because numba itself notices a change only in the file of the function that is called
from outside. Without such a folder, every process compiles the code.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba import types
from numba.extending import intrinsic

from aggregator.code_cache import given_folder, own_folder

F = TypeVar("F", bound=Callable[..., Any])

# A machine integer of numba, for which Python has no annotation.
Number = Any

_SOURCES = (
    "jit.py",
    "privacy/kernel/*.py",
    "privacy/tokens/sha256.py",
    "privacy/tokens/tokens.py",
    "privacy/batch/distinct.py",
    "privacy/batch/guard.py",
    "kafka/native/*.py",
)

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")
INTEGERS = types.Array(types.int64, 1, "C")
NUMBER = types.int64


def _sources_digest() -> str:
    """Names the state of all code that is compiled, and of the modules beside it whose limits are compiled in."""
    digest = hashlib.sha256(numba.__version__.encode())
    here = Path(__file__).parent
    for pattern in _SOURCES:
        for path in sorted(here.glob(pattern)):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder for machine code: `NUMBA_CACHE_DIR`, or this user's folder for this state of the sources.

    Returns:
        The folder exists, and nobody else can write to it. None if there is no such folder, as in a container with a
        read-only disk, or if others can write to the one that `NUMBA_CACHE_DIR` names.
    """
    if environ.get("NUMBA_CACHE_DIR"):
        return given_folder(Path(environ["NUMBA_CACHE_DIR"]))
    return own_folder(f"kernel-{_sources_digest()}", environ)


_FOLDER = cache_folder()
numba.config.CACHE_DIR = str(_FOLDER or "")


@intrinsic  # type: ignore[untyped-decorator]
def unowned(_typing: Any, array: Any) -> Any:
    """The same array without a count of its references: the caller of the machine holds it, and counting them at every
    step takes ten times as long as the step.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        row = context.make_array(signature.return_type)(context, builder, value=arguments[0])
        row.meminfo = row.meminfo.type(None)
        row.parent = row.parent.type(None)
        return row._getvalue()  # noqa: SLF001 - numba's own way

    return array(array), generate


def inlined(function: F) -> F:
    """Part of the functions that call it; never called from Python."""
    compiled: F = numba.njit(forceinline=True, nogil=True, boundscheck=False)(function)
    return compiled


def inlined_early(function: F) -> F:
    """Make a long function part of its one caller before that is compiled, so that it is compiled once."""
    compiled: F = numba.njit(inline="always", nogil=True, boundscheck=False)(function)
    return compiled


def compiled(returns: Any, *arguments: Any) -> Callable[[F], F]:
    """Machine code for exactly these types of arguments, without the interpreter's lock."""
    return numba.njit(returns(*arguments), nogil=True, boundscheck=False, cache=_FOLDER is not None)  # type: ignore[no-any-return]
