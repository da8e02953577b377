"""Asks questions in processes of their own, because an answer may end the process that reads it.

librdkafka reads a broker's answers without checking all of them: damaged metadata can end the process by a signal.
Invariant: however a child ends, its parent goes on, knows how the child ended, and has what the child had reported
before. A child has none of its parent's threads, so it uses none of its parent's clients.
"""

import faulthandler
import gc
import multiprocessing
import os
import resource
import signal
import threading
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple, TypeVar

from aggregator.errors import AggregatorError, ExitCode, FatalError, kind_and_place
from aggregator.kafka.client import clients

T = TypeVar("T")
Tell = Callable[[T], None]
# Gets a function that reports an answer, and calls it again whenever it knows more.
Question = Callable[[Tell[T]], None]
_FORK = multiprocessing.get_context("fork")
# The next step after an error that nobody foresaw.
DEFECT = "aggregator --log-level debug doctor shows where; report that line, and what is special about this cluster"
_LATE = "did not come to an end in time"


class Ended(NamedTuple):
    """Holds the result of one question that a child process was asked.

    Attributes:
        answer: The last answer; None where there was none.
        end: The child's abnormal end; empty where it ended well.
        error: The error that the question raised.
    """

    answer: Any = None
    end: str = ""
    error: AggregatorError | None = None


class _Child(NamedTuple):
    """One process, and the connection through which it reports."""

    process: Any
    answers: Connection


class ChildQuestions:
    """Asks several questions by name, all at the same time.

    Args:
        questions: The question for each child.
        timeout_s: Time after which a running child is ended.
    """

    def __init__(self, questions: Mapping[str, Question[Any]], *, timeout_s: float) -> None:
        self._until_s = time.monotonic() + timeout_s
        self._children = {name: _begun(question) for name, question in questions.items()}

    def results(self) -> dict[str, Ended]:
        """Wait for the answers, and return the result of each question by name."""
        found = dict.fromkeys(self._children, Ended())
        telling = {child.answers: name for name, child in self._children.items()}
        while telling and (ready := wait(list(telling), max(0.0, self._until_s - time.monotonic()))):
            for answers, name in [one for one in telling.items() if one[0] in ready]:
                try:
                    told = answers.recv()
                except EOFError:
                    del telling[answers]
                    found[name] = found[name]._replace(end=_end(self._children[name].process))
                else:
                    is_error = isinstance(told, AggregatorError)
                    found[name] = found[name]._replace(**{"error" if is_error else "answer": told})
        for name in telling.values():
            self._children[name].process.kill()
            found[name] = found[name]._replace(end=_LATE)
        for child in self._children.values():
            child.answers.close()
        return found


def _begun(question: Question[Any]) -> _Child:
    answers, outlet = _FORK.Pipe(duplex=False)
    child = _FORK.Process(target=_ask, args=(question, outlet), daemon=True)
    child.start()
    outlet.close()
    return _Child(child, answers)


def _end(child: Any) -> str:
    child.join()
    code: int = child.exitcode
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    return f"ended with {code}" if code else ""


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(ExitCode.FAILED)


def _ask(question: Question[Any], outlet: Connection) -> None:
    gc.disable()  # the parent's objects must not be finalised here
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    clients.leave_inherited()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        question(outlet.send)
    except AggregatorError as error:
        outlet.send(error)
    except Exception as error:  # noqa: BLE001 - a library's own, which may not even pass a pipe
        outlet.send(FatalError(f"what it answers cannot be read ({kind_and_place(error)})", hint=DEFECT))
    outlet.close()
    os._exit(ExitCode.DONE)  # threads that still ask are not waited for
