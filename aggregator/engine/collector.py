"""This module tunes Python's cycle collector for processes that handle thousands of records and make no cycles.

Invariant: only settings of the interpreter change, never the work.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# A worker makes and drops so many objects with every poll. With a lower threshold, the collector scans them in vain.
_YOUNG = 100_000
_OLDER = 10


@cache
def freeze_objects() -> None:
    """Exempt what is loaded from collection, and collect rarely; called once per process.

    With Python's own thresholds a third of a slot's CPU went into looking through its records, and through the
    libraries' objects, again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Turn the garbage collection off while the block runs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
