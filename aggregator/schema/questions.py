"""Questions to a registry, asked behind the back of the loop that needs the answers.

Invariants: a question is put as often as one likes and asked once; its answer, or its error, is there for whoever puts
it next, however late it comes. Each asker has a lane, in which one question is asked after the other; lanes take turns,
so that no asker holds up another. The loop waits as long as its budget says, and never for a lane that is full. The
askers are one thread.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from aggregator.schema.asking_budget import AskingBudget
from aggregator.threads import ask_aside

T = TypeVar("T")
_Lane = deque[tuple["Future[Any]", Callable[[], Any]]]

# More than one batch asks about at once.
_LANE_MOST = 128
# Answers that nobody took.
_KEPT_MOST = 4096


class StillWaiting(Exception):
    """No answer yet; nothing is known."""


class Questions:
    """What is asked, and what was answered since and not yet taken.

    Args:
        budget: How long the loop waits.
        runners: So many questions are asked at once.
    """

    def __init__(self, budget: AskingBudget, runners: int) -> None:
        self._budget, self._runners = budget, runners
        self._pending: dict[Hashable, Future[Any]] = {}
        self._lanes: dict[Hashable, _Lane] = {}
        self._turns: deque[Hashable] = deque()
        self._running = 0
        self._lock = threading.Lock()

    def anew(self) -> "Questions":
        """The same without any question: what hangs is left behind, and what was to be asked after it is not asked."""
        with self._lock:
            self._lanes, self._turns = {}, deque()
        return Questions(self._budget, self._runners)

    def ask(
        self,
        about: Hashable,
        question: Callable[[], T],
        *,
        lane: Hashable = None,
        topic: str = "",
        share: float = 1.0,
        wait_s: float | None = None,
    ) -> T:
        """The answer of `question`, or what it raises.

        Args:
            about: What tells questions apart; the late answer of an equal one is taken for this one.
            question: Runs in another thread: name look-ups know no time limit.
            lane: In which it is asked.
            topic: Whose time of the budget is used.
            share: So much of what is left of it.
            wait_s: How long to wait, whatever the budget says.

        Raises:
            StillWaiting: it takes longer, or the lane is full.
        """
        since_s = time.monotonic()
        future = self._pending.get(about) or self._begun(about, question, lane)
        if not future.done():
            wait([future], share * self._budget.left_s(since_s, topic) if wait_s is None else wait_s)
        if wait_s is None:
            now_s = time.monotonic()
            self._budget.spend(now_s, now_s - since_s, topic)
        if not future.done():
            raise StillWaiting
        del self._pending[about]
        answer: T = future.result()
        return answer

    def _begun(self, about: Hashable, question: Callable[[], T], lane: Hashable) -> "Future[T]":
        if len(self._pending) > _KEPT_MOST:
            self._pending = {known: one for known, one in self._pending.items() if not one.done()}
        future: Future[T] = Future()
        with self._lock:
            is_new = lane not in self._lanes
            waiting = self._lanes.setdefault(lane, deque())
            if len(waiting) >= _LANE_MOST:
                raise StillWaiting
            waiting.append((future, question))
            if is_new:
                self._turns.append(lane)
            starts = is_new and self._running < self._runners
            self._running += starts
        self._pending[about] = future
        if starts:
            ask_aside(self._run, "registry")
        return future

    def _run(self) -> None:
        """One question of a lane, then one of the next lane, until nothing is left to ask."""
        while True:
            with self._lock:
                if not self._turns:
                    self._running -= 1
                    return
                lane = self._turns.popleft()
                waiting = self._lanes[lane]
                future, question = waiting.popleft()
            try:
                future.set_result(question())
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is read
                future.set_exception(error)
            with self._lock:
                if self._lanes.get(lane) is waiting:
                    if waiting:
                        self._turns.append(lane)
                    else:
                        del self._lanes[lane]
