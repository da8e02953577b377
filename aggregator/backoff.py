"""How long to wait before something is tried again: twice as long after each failure, up to a bound.

Invariant: pure, and without chance: a hub has few slots, threads and leaders, which do not fail in step.
"""

_DOUBLINGS_MOST = 16


def backoff_s(failures: int, *, first_s: float, most_s: float) -> float:
    """The pause before the next attempt, in seconds.

    Args:
        failures: How many attempts have failed in a row before the last one.
        first_s: The pause after the first failure.
        most_s: No pause is longer.
    """
    return min(most_s, first_s * 2.0 ** min(failures, _DOUBLINGS_MOST))
