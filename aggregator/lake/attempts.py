"""The loop around every commit of the lake: tries again from a fresh handle, as long as other writers are first.

Invariant: only a commit that was definitely refused (`CommitConflict`) is tried again. One without an answer ends the
loop, and the next cycle looks at the table.
"""

import logging
import secrets
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from aggregator.backoff import Backoff
from aggregator.lake.tables.port import CommitConflict

T = TypeVar("T")
_AT_ONCE = Backoff(first_s=0.0, most_s=0.0)
log = logging.getLogger(__name__)


class Done(NamedTuple, Generic[T]):
    """The end of the attempts, and what they brought."""

    result: T


def attempted(name: str, attempt: Callable[[], Done[T] | None], *, most: int = 10, pauses: Backoff = _AT_ONCE) -> T:
    """The result of the first attempt that other writers let through.

    Args:
        name: The table's.
        attempt: Opens the table, works out its change and commits it; None where it created or widened the table and
            has to look again.
        most: So many are tried.
        pauses: Between them; others may try at the same moments.

    Raises:
        CommitConflict: other writers were faster every time.
    """
    for failures in range(most):
        if failures:
            time.sleep(pauses.pause_s(failures, chance=secrets.SystemRandom().random()))
        try:
            done = attempt()
        except CommitConflict as conflict:
            log.info("%s", conflict.message)
        else:
            if done is not None:
                return done.result
    raise CommitConflict(f"table {name}: other writers were faster {most} times", hint="try again later")
