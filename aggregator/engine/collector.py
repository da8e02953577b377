"""Python's cycle collector, in processes that handle thousands of records or plans at a time and make no cycles.

Invariant: touches the interpreter only, never the work.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

# Objects that a worker makes and drops with every poll; a threshold below them looks through all of them for nothing.
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
def resting() -> Iterator[None]:
    """Turn the garbage collection off while the block runs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
