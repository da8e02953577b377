"""Asks a registry questions in background threads, so that the loop that needs the answers goes on.

Invariants: a question may be put many times but is asked once. Its answer or its error waits for the next time that the
question is put, however late the answer comes. Each requester has a lane, and the questions of a lane are asked one
after the other. Lanes take turns, so that no requester delays another. A question of two requesters is in both lanes,
and the first lane to reach it asks it. The loop waits as long as its budget allows, and never for a full lane. All
requesters are in one thread.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from aggregator.schema.asking_budget import AskingBudget
from aggregator.threads import run_in_thread

T = TypeVar("T")
# The subject of a question, mapped to the future of its answer and the function that asks; the first is asked next.
_Lane = dict[Hashable, tuple["Future[Any]", Callable[[], Any]]]

# More questions than one batch has at once.
_MAX_LANE = 128
# The bound on answers that have not been fetched.
_MAX_KEPT = 4096
log = logging.getLogger(__name__)


class StillWaiting(Exception):
    """The question has no answer yet."""


class LookupQueue:
    """Queues the open questions, and keeps the answers that have not been fetched yet.

    Args:
        budget: The loop's longest wait.
        runners: So many questions are asked at once.
    """

    def __init__(self, budget: AskingBudget, runners: int) -> None:
        self._budget, self._runners = budget, runners
        self._pending: dict[Hashable, Future[Any]] = {}
        self._lanes: dict[Hashable, _Lane] = {}
        self._turns: deque[Hashable] = deque()
        self._running = 0
        self._lock = threading.Lock()

    def restarted(self) -> "LookupQueue":
        """The same without any question: what hangs is left behind, and what was to be asked after it is not asked."""
        with self._lock:
            self._lanes, self._turns = {}, deque()
        return LookupQueue(self._budget, self._runners)

    def fetch(
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
            lane: The lane of the question.
            topic: Whose time of the budget is used.
            share: So much of what is left of it.
            wait_s: How long to wait, whatever the budget says.

        Raises:
            StillWaiting: it takes longer, or the lane is full.
        """
        since_s = time.monotonic()
        future = self._pending.get(about) or Future()
        if not (future.running() or future.done()):
            self._enter(about, future, question, lane)
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

    def _enter(self, about: Hashable, future: "Future[T]", question: Callable[[], T], lane: Hashable) -> None:
        """Let a question wait in a lane, unless it does."""
        with self._lock:
            waiting = self._lanes.get(lane, {})
            if about not in waiting and len(waiting) < _MAX_LANE:
                if lane not in self._lanes:
                    self._lanes[lane] = waiting
                    self._turns.append(lane)
                waiting[about] = future, question
                self._keep(about, future)
            starts = bool(self._turns) and self._running < self._runners
            self._running += starts
        if starts:
            self._start()
        if about not in self._pending:
            raise StillWaiting

    def _keep(self, about: Hashable, future: "Future[Any]") -> None:
        if len(self._pending) > _MAX_KEPT:
            self._pending = {known: one for known, one in self._pending.items() if not one.done()}
        self._pending[about] = future

    def _start(self) -> None:
        try:
            run_in_thread(self._run, "registry")
        except RuntimeError:  # the machine gives no thread; whoever puts a question next tries again
            with self._lock:
                self._running -= 1
            log.warning("no thread can be started that asks a registry; it is tried again")

    def _run(self) -> None:
        """One question of a lane, then one of the next lane, until nothing is left to ask."""
        while (found := self._next()) is not None:
            lane, waiting, future, question = found
            try:
                future.set_result(question())
            except BaseException as error:  # noqa: BLE001 - it is raised where the answer is read
                future.set_exception(error)
            with self._lock:
                self._turn(lane, waiting)

    def _next(self) -> tuple[Hashable, _Lane, "Future[Any]", Callable[[], Any]] | None:
        """What this runner asks; it is asked in no other lane. None: nothing is left."""
        with self._lock:
            while self._turns:
                lane = self._turns.popleft()
                waiting = self._lanes[lane]
                future, question = waiting.pop(next(iter(waiting)))
                if not (future.running() or future.done()):
                    future.set_running_or_notify_cancel()
                    return lane, waiting, future, question
                self._turn(lane, waiting)
            self._running -= 1
        return None

    def _turn(self, lane: Hashable, waiting: _Lane) -> None:
        """Put a lane whose turn is over at the end of the queue, or remove it if it is empty."""
        if self._lanes.get(lane) is waiting:
            if waiting:
                self._turns.append(lane)
            else:
                del self._lanes[lane]
