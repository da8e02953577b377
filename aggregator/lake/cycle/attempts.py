"""The loop around every commit of the lake. It tries again from a fresh handle as long as other writers commit first.

Invariant: only a commit that was definitely refused (`CommitConflict`) is tried again. A commit without an answer ends
the loop, and the next cycle looks at the table. Some writers need more time for an attempt than other writers leave
between two commits. Such a writer asks for a turn: the hub's own cycles then wait, for a bounded time. Nothing else
depends on a turn.
"""

import contextlib
import logging
import secrets
import time
import uuid
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from aggregator.backoff import Backoff
from aggregator.lake.storage.folder import Folder
from aggregator.lake.tables.port import CommitConflict

T = TypeVar("T")
_AT_ONCE = Backoff(first_s=0.0, most_s=0.0)
# A file in a table's folder. It holds a word that is unique to its writer.
TURN = "hub-turn"
# After so many conflicts a writer asks for a turn, and asks again after as many more.
_LOST = 4
# A turn lasts so long. It must be shorter than the thirty seconds without progress after which a drain gives up.
_TURN_S = 20.0
log = logging.getLogger(__name__)


class Done(NamedTuple, Generic[T]):
    """Ends the attempts, and holds their result."""

    result: T


class CommitTurns:
    """Tells whose turn it is to commit, to a writer that can wait.

    Args:
        clock: Seconds, never set back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seen: dict[str, tuple[bytes, float]] = {}

    def is_reserved_by_other(self, folder: Folder) -> bool:
        """Whether somebody asked for a turn on this table lately; a turn that lasted too long is over.

        Args:
            folder: The table's.

        Raises:
            OSError: the storage does not answer.
        """
        try:
            asked = folder.read(TURN)
        except FileNotFoundError:
            self._seen.pop(folder.root, None)
            return False
        if self._seen.get(folder.root, (b"", 0.0))[0] != asked:
            self._seen[folder.root] = asked, self._clock()
        return not self._is_expired(folder)

    def remove_expired(self, folder: Folder) -> None:
        """Remove the file of a turn that was seen for too long: the turn's owner died, or will ask again.

        Args:
            folder: The table's, after `is_reserved_by_other` was asked about it.

        Raises:
            OSError: the storage does not answer.
        """
        if folder.root in self._seen and self._is_expired(folder):
            folder.remove(TURN)

    def _is_expired(self, folder: Folder) -> bool:
        return self._clock() - self._seen[folder.root][1] >= _TURN_S


def commit_with_retries(
    name: str,
    attempt: Callable[[], Done[T] | None],
    *,
    most: int = 10,
    pauses: Backoff = _AT_ONCE,
    folder: Folder | None = None,
) -> T:
    """The result of the first attempt that does not lose to another writer.

    Args:
        name: The table's name.
        attempt: Opens the table, works out its change and commits it; None where it created or widened the table and
            has to look again.
        most: The greatest number of attempts.
        pauses: Pauses between attempts; other writers may try at the same moments.
        folder: The table's, where a turn is asked for; None: never.

    Raises:
        CommitConflict: other writers were faster every time.
    """
    with contextlib.ExitStack() as ending:
        for failures in range(most):
            if failures:
                time.sleep(pauses.pause_s(failures, chance=secrets.SystemRandom().random()))
            if folder is not None and failures and failures % _LOST == 0:
                if failures == _LOST:
                    ending.callback(_end, folder)
                _ask(folder)
            try:
                done = attempt()
            except CommitConflict as conflict:
                log.info("%s", conflict.message)
            else:
                if done is not None:
                    return done.result
    raise CommitConflict(f"table {name}: other writers were faster {most} times", hint="try again later")


def _ask(folder: Folder) -> None:
    """Ask for a turn by writing its file. If the storage does not answer, go on without one."""
    with contextlib.suppress(OSError), folder.create(TURN) as sink:
        sink.write(uuid.uuid4().bytes)


def _end(folder: Folder) -> None:
    with contextlib.suppress(OSError):
        folder.remove(TURN)
