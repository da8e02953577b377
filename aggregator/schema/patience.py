"""Waits a bounded time for an answer; a question that takes longer goes on, and its answer is there the next time.

Invariant: whoever asks waits once for a slow answer and not at all while that question is still under way, so that one
slow registry does not hold up the other edges of a slot. The asker is one thread.
"""

from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Any, TypeVar

from aggregator.threads import ask_aside

T = TypeVar("T")


class StillWaiting(Exception):
    """No answer yet; nothing is known."""


class Patience:
    """Asks one question at a time.

    Attributes:
        wait_s: Longest that an asker waits.
    """

    def __init__(self, wait_s: float) -> None:
        self.wait_s = wait_s
        self._pending: tuple[Hashable, Future[Any]] | None = None

    def forget(self) -> None:
        """Wait no more for the question that is under way."""
        self._pending = None

    @property
    def has_answer(self) -> bool:
        """Whether the late answer of a question is there."""
        return self._pending is not None and self._pending[1].done()

    def ask(self, about: Hashable, question: Callable[[], T], *, wait_s: float | None = None) -> T:
        """The answer of `question`, or what it raises.

        Args:
            about: What tells questions apart; the late answer of an equal one is taken for this one.
            question: Runs in a thread of its own: name look-ups know no time limit.
            wait_s: Instead of the usual time.

        Raises:
            StillWaiting: it takes longer, or an earlier question still does.
        """
        if self._pending is not None:
            asked, late = self._pending
            if not late.done():
                raise StillWaiting
            self._pending = None
            if asked == about:
                answer: T = late.result()
                return answer
        future = ask_aside(question, "registry")
        try:
            return future.result(self.wait_s if wait_s is None else wait_s)
        except TimeoutError:
            if future.done():
                return future.result()
            self._pending = (about, future)
            raise StillWaiting from None
