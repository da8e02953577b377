"""Frames: the newest snapshot with its age, and the wait for the next one.

Invariant: no cluster is asked. A snapshot that is not renewed grows old, and is shown with its age.
"""

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from aggregator.observe.exposition import Watcher
from aggregator.observe.snapshot import Snapshot

# A snapshot is renewed every second. If it is older than this, the page says so.
OLD_S = 4
_LOOK_S = 0.1
_TELL_S = 1.0


class Frame(NamedTuple):
    """The content of the page at one moment.

    Attributes:
        seen: The newest snapshot; None before the first.
        old_s: Its age in whole seconds, once it is old; else 0.
    """

    seen: Snapshot | None
    old_s: int = 0

    @property
    def key(self) -> tuple[int, int]:
        """A key that is equal for frames that look the same."""
        return (-1 if self.seen is None else self.seen.number), self.old_s


class Frames:
    """Gives frames of a watcher's snapshots. All calls come from one event loop.

    Args:
        clock: Seconds, only forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.watcher: Watcher | None = None
        self._clock = clock
        self._number, self._since_s = -1, clock()

    def newest(self) -> Frame:
        """A frame of the newest snapshot with its present age."""
        seen = self.watcher.latest() if self.watcher else None
        now_s = self._clock()
        if seen is None:
            return Frame(None)
        if seen.number != self._number:
            self._number, self._since_s = seen.number, now_s
        age_s = int(now_s - self._since_s)
        return Frame(seen, age_s if age_s >= OLD_S else 0)

    async def after(self, frame: Frame) -> Frame:
        """The next frame that looks different; the same one after a second, so that a reader knows that we live."""
        deadline = self._clock() + _TELL_S
        while (found := self.newest()).key == frame.key and self._clock() < deadline:  # noqa: ASYNC110 - a watcher is a thread, and knows no event loop
            await asyncio.sleep(_LOOK_S)
        return found
