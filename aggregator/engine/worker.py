"""A Python worker of Spark's, prepared for hours of records.

Invariant: touches the interpreter only, never the work.
"""

import gc

# Objects that a worker makes and drops with every poll; a threshold below them looks through all of them for nothing.
_YOUNG = 100_000
_OLDER = 10


def settle() -> None:
    """Set what is loaded apart from what is collected, and collect rarely.

    Records are thousands of short-lived objects without cycles. With Python's own thresholds a third of a slot's CPU
    went into looking through them, and through the libraries' objects, again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
