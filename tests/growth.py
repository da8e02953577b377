"""What work costs in CPU time, so that a busy machine fails no test."""

import time
from collections.abc import Callable

_ROUNDS = 3


def cpu_s(work: Callable[[], object]) -> float:
    """Seconds of this thread's CPU that work takes; the least of three rounds, because others only ever add."""
    taken = []
    for _ in range(_ROUNDS):
        began = time.thread_time()
        work()
        taken.append(time.thread_time() - began)
    return min(taken)


def grows_linearly(work: Callable[[int], object], size: int) -> bool:
    """Whether four times as much takes four times as long, with room for noise; of a square it would be sixteen."""
    return cpu_s(lambda: work(4 * size)) < 10 * cpu_s(lambda: work(size)) + 0.02
