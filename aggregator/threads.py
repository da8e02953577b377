"""This module supervises threads: it logs an error that ends a thread, restarts the thread, and names one that hangs.

Invariants: no error of a thread is lost, and none ends another thread. An `ExitError` of a vital thread ends the
process with the exit code of that error. Nothing is ended by force: a thread that hangs is named, and named again when
it moves. The text of a foreign error is not kept, because it may quote a record.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from aggregator.backoff import Backoff
from aggregator.errors import AggregatorError, ExitError, FatalError, kind_and_place
from aggregator.machine_clock import utc_now_ms

K = TypeVar("K")
T = TypeVar("T")
Pulse = Callable[[], None]
Body = Callable[[Pulse], None]
# Takes an error, and the text that may be shown of it.
ErrorCallback = Callable[[BaseException, str], None]

# A thread that ran for this long starts again with its failures reset.
_LASTED_S = 60.0
_PAUSES = Backoff(first_s=0.5, most_s=30.0)
_MAX_FAILURES = 5
_LOOK_EVERY_S = 1.0
_MAX_FRAMES = 3
log = logging.getLogger(__name__)


def run_in_thread(question: Callable[[], T], name: str) -> "Future[T]":
    """Ask a question without a time limit in a thread of its own; the process does not wait for the thread at its end.

    Args:
        question: Function that asks; its error is raised to whoever reads the answer.
        name: Name of the thread.
    """
    future: Future[T] = Future()
    threading.Thread(target=_settle, args=(future, question), name=name, daemon=True).start()
    return future


def _settle(future: "Future[T]", question: Callable[[], T]) -> None:
    try:
        future.set_result(question())
    except BaseException as error:  # noqa: BLE001 - it is raised where the answer is read
        future.set_exception(error)


class ThreadCondition(StrEnum):
    """Names the conditions of a thread."""

    RUNNING = "running"
    HANGING = "hanging"
    RESTARTING = "restarting"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class ThreadStatus:
    """Describes the condition of one thread.

    Attributes:
        name: The name of the thread's work.
        condition: `running`; `hanging`: no pulse for longer than its work can take; `restarting`: an error ended it,
            and it begins again after a pause; `dead`: an error ended it for good.
        since_ms: Time at which the condition began, by this machine's clock; for display only, never compared.
        restarts: Number of restarts since the process started.
        error: Last error that ended the thread, in one line; empty if there was none.
    """

    name: str
    condition: ThreadCondition
    since_ms: int
    restarts: int = 0
    error: str = ""

    @property
    def is_well(self) -> bool:
        """Whether the thread needs no attention."""
        return self.condition is ThreadCondition.RUNNING


class Supervised:
    """The state of one supervised thread; `Threads` makes it."""

    def __init__(self, name: str, bound_s: float | None) -> None:
        self.name = name
        self.bound_s = bound_s
        self.condition = ThreadCondition.RUNNING
        self.restarts = 0
        self.error = ""
        self.since_s = self.pulse_s = time.monotonic()
        self.thread: threading.Thread | None = None

    def pulse(self) -> None:
        """Record that the thread still works."""
        self.pulse_s = time.monotonic()

    def set_condition(self, condition: ThreadCondition) -> None:
        """Set the thread's condition and the time of the change."""
        self.condition, self.since_s = condition, time.monotonic()
        self.pulse()

    def hangs(self, now_s: float) -> bool:
        """Whether its work takes longer than it can."""
        return (
            self.condition is ThreadCondition.RUNNING
            and self.bound_s is not None
            and now_s - self.pulse_s > self.bound_s
        )

    def is_alive(self) -> bool:
        """Whether the thread is alive."""
        return self.thread is not None and self.thread.is_alive()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait for its end; not from within itself."""
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout_s)


class Threads:
    """Starts and watches the threads of one hub in this process.

    Args:
        stop: Set when a thread ends that the process cannot live without.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.fatal: AggregatorError | None = None
        self._stop = stop or threading.Event()
        self._known: dict[str, Supervised] = {}
        self._named: frozenset[str] = frozenset()
        self._lock = threading.Lock()

    def start(
        self,
        name: str,
        body: Body,
        *,
        stop: threading.Event,
        bound_s: float | None,
        vital: bool = False,
        on_error: ErrorCallback | None = None,
    ) -> Supervised:
        """Start a daemon thread that begins again after every error.

        Args:
            name: Name of the thread's work; only the newest thread of a name is reported.
            body: Its work, which calls the pulse it gets at every turn; returning ends the thread.
            stop: Set: it does not begin again.
            bound_s: A turn never takes so many seconds; None where nobody can say.
            vital: The process cannot live without it: an `ExitError`, or five failures in a row, end the process.
            on_error: Takes its first error, instead of a restart: its owner decides what follows.
        """
        made = Supervised(name, bound_s)
        supervision = _Supervision(self, made, body, stop, vital=vital, on_error=on_error)
        made.thread = threading.Thread(target=supervision.run, name=name, daemon=True)
        with self._lock:
            self._known[name] = made
        made.thread.start()
        return made

    @contextmanager
    def watching(self, name: str, bound_s: float) -> Iterator[Pulse]:
        """Supervise the calling thread while the block lasts: it is named when it hangs; its errors are its caller's.

        Args:
            name: Name of the thread's work.
            bound_s: Longest time of a turn, as for `start`.
        """
        made = Supervised(name, bound_s)
        with self._lock:
            self._known[name] = made
        try:
            yield made.pulse
        finally:
            self.forget(made)

    def forget(self, ended: Supervised) -> None:
        """Forget a thread that has ended as it should."""
        with self._lock:
            if self._known.get(ended.name) is ended:
                del self._known[ended.name]

    def statuses(self) -> tuple[ThreadStatus, ...]:
        """The status of every thread that should run, by name."""
        with self._lock:
            known = sorted(self._known.items())
        now_s, now_ms = time.monotonic(), utc_now_ms()

        def status(one: Supervised) -> ThreadStatus:
            hangs = one.hangs(now_s)
            since_s = one.pulse_s if hangs else one.since_s
            condition = ThreadCondition.HANGING if hangs else one.condition
            since_ms = now_ms - int((now_s - since_s) * 1000)
            error = f"no pulse for over {one.bound_s:.0f} s" if hangs else one.error
            return ThreadStatus(one.name, condition, since_ms, one.restarts, error)

        return tuple(status(one) for _, one in known)

    def watch(self, stop: threading.Event, report: Callable[[tuple[ThreadStatus, ...]], None]) -> Supervised:
        """Start the thread that looks at all others: it logs who hangs, and tells all of them, once a second.

        Args:
            stop: Event that ends the thread.
            report: Function that takes the statuses.
        """

        def look(pulse: Pulse) -> None:
            while not stop.wait(_LOOK_EVERY_S):
                pulse()
                found = self.statuses()
                self._name_hanging(found)
                report(found)

        return self.start("threads", look, stop=stop, bound_s=60.0)

    def end(self, error: AggregatorError) -> None:
        """Stop the process, which cannot go on, with this error."""
        self.fatal = self.fatal or error
        self._stop.set()

    def check(self) -> None:
        """Raise the error that ended the process, if a thread did.

        Raises:
            AggregatorError: the first such error.
        """
        if self.fatal is not None:
            raise self.fatal

    def _name_hanging(self, found: tuple[ThreadStatus, ...]) -> None:
        hanging = {one.name: one.error for one in found if one.condition is ThreadCondition.HANGING}
        for name in hanging.keys() - self._named:
            log.error("thread %s hangs: %s", name, hanging[name])
        for name in self._named - hanging.keys():
            log.warning("thread %s moves again", name)
        self._named = frozenset(hanging)


class _Supervision:
    """Runs the body of a supervised thread, and runs it again after an error."""

    def __init__(
        self,
        threads: Threads,
        own: Supervised,
        body: Body,
        stop: threading.Event,
        *,
        vital: bool,
        on_error: ErrorCallback | None,
    ) -> None:
        self._threads, self._own, self._body, self._stop = threads, own, body, stop
        self._vital, self._on_error = vital, on_error

    def run(self) -> None:
        failures = 0
        while True:
            began = time.monotonic()
            try:
                self._body(self._own.pulse)
            except BaseException as error:  # noqa: BLE001 - libraries of Rust raise what is no Exception
                failures = 1 if time.monotonic() - began > _LASTED_S else failures + 1
                if not self._restart_after(error, failures):
                    return
            else:
                self._threads.forget(self._own)
                return

    def _restart_after(self, error: BaseException, failures: int) -> bool:
        """Log what ended it, and wait for the pause of a restart; return whether it begins again."""
        own, said = self._own, error_text(error)
        own.error = said
        if self._stop_if_fatal(error, failures, said):
            own.set_condition(ThreadCondition.DEAD)
            log.error("thread %s ended: %s", own.name, said)
            return False
        if self._stop.is_set():
            log.warning("thread %s ended at the stop: %s", own.name, said)
            self._threads.forget(own)
            return False
        own.set_condition(ThreadCondition.RESTARTING)
        pause_s = _PAUSES.pause_s(failures)
        log.error("thread %s ended and begins again in %.1f s: %s", own.name, pause_s, said)
        if self._stop.wait(pause_s):
            return False
        own.restarts += 1
        own.set_condition(ThreadCondition.RUNNING)
        return True

    def _stop_if_fatal(self, error: BaseException, failures: int, said: str) -> bool:
        if self._on_error is not None:
            self._on_error(error, said)
            return True
        if self._vital and isinstance(error, ExitError):
            self._threads.end(error)
            return True
        if self._vital and failures >= _MAX_FAILURES:
            why = f"thread {self._own.name} ended {failures} times in a row: {said}"
            self._threads.end(FatalError(why, hint="look at the log, mend it, start again"))
            return True
        return False


def map_concurrently(question: Callable[[K], T], asked: Collection[K], *, most: int | None = None) -> dict[K, T]:
    """Ask one question about each of several things in threads, and wait for all answers.

    Args:
        question: Function that is called once for each thing.
        asked: The things, for instance names of clusters.
        most: Number of threads; None: one for each question.

    Returns:
        The answers, in the order of `asked`. If a question raises, all others are answered, then the error is raised.
    """
    if len(asked) <= 1:  # in this thread
        return {one: question(one) for one in asked}
    with ThreadPoolExecutor(min(most or len(asked), len(asked))) as pool:
        futures = {one: pool.submit(question, one) for one in asked}
    return {one: future.result() for one, future in futures.items()}


def error_text(error: BaseException) -> str:
    """An error in one line: our own with its words, a foreign one by its name and the places where it was raised."""
    if isinstance(error, AggregatorError):
        return error.message
    return kind_and_place(error, frames=_MAX_FRAMES, caller=__file__)
