"""Questions in processes of their own: what ends a child ends nobody else, and what it told before counts."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from aggregator.doctor.child_processes import ChildQuestions, Ended
from aggregator.doctor.examination import _judged
from aggregator.doctor.finding import CheckState, ok
from aggregator.errors import Unreachable
from tests.trial import wait_for


def test_answers_come_side_by_side_and_the_last_one_counts():
    """Also those that fill a pipe while nobody reads."""

    def wide(tell):
        tell("first")
        time.sleep(0.2)
        tell("x" * 1_000_000)

    began = time.monotonic()
    told = ChildQuestions({"a": wide, "b": wide, "c": lambda _: None}, timeout_s=20).results()
    assert {name: (len(answer or ""), end) for name, (answer, end, _) in told.items()} == {
        "a": (1_000_000, ""),
        "b": (1_000_000, ""),
        "c": (0, ""),
    }
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGABRT])
def test_a_child_that_is_ended_by_an_answer_leaves_what_it_told(number):
    """By the signal's name; the others end well."""

    def dies(tell):
        tell("known before")
        os.kill(os.getpid(), number)

    told = ChildQuestions({"dies": dies, "lives": lambda tell: tell(1)}, timeout_s=20).results()
    assert told == {"dies": Ended("known before", f"ended by {number.name}"), "lives": Ended(1)}


def test_a_child_that_goes_on_is_ended_and_one_that_raises_is_heard():
    """Nobody waits for ever; an error is an answer, whoever raised it, and keeps no other back."""
    asked = ChildQuestions({"hangs": lambda tell: (tell(1), time.sleep(60))}, timeout_s=0.3)
    assert asked.results() == {"hangs": Ended(1, "did not come to an end in time")}

    def fails(_):
        raise Unreachable("no broker answers", hint="start it")

    def breaks(tell):
        tell("known before")
        raise Unpicklable

    told = ChildQuestions({"fails": fails, "breaks": breaks}, timeout_s=20).results()
    assert (told["fails"].error.message, told["fails"].error.hint) == ("no broker answers", "start it")
    assert told["breaks"].answer == "known before"
    assert told["breaks"].error.message.startswith("what it answers cannot be read (Unpicklable at ")


@pytest.mark.slow
def test_children_end_with_their_parent(tmp_path):
    """Whoever ends a `doctor` that waits leaves no process behind."""
    place = tmp_path / "pids"
    program = textwrap.dedent(f"""
        import os, time
        from aggregator.doctor.child_processes import ChildQuestions

        def hangs(tell):
            with open({str(place)!r}, "a") as file:
                file.write(f"{{os.getpid()}}\\n")
            time.sleep(600)

        ChildQuestions({{"a": hangs, "b": hangs}}, timeout_s=600).results()
    """)
    with subprocess.Popen([sys.executable, "-c", program]) as parent:
        wait_for(lambda: place.exists() and len(place.read_text().split()) == 2, timeout=60, what="two children")
        parent.terminate()
    children = [int(one) for one in place.read_text().split()]
    wait_for(lambda: not any(Path(f"/proc/{one}").exists() for one in children), timeout=20, what="their end")


class Unpicklable(Exception):
    """An error of a library's that passes no pipe."""

    def __reduce__(self):
        raise TypeError("cannot pickle")


def test_what_a_cluster_tells_may_be_so_that_it_cannot_be_judged():
    """Findings before it stand, and it is one itself, without its text."""

    def findings():
        yield ok("eu", "first", "well")
        raise ValueError("invalid literal for int(): canary")

    first, second = _judged("eu", findings)
    assert first.check == "first"
    assert (second.state, second.check) == (CheckState.FAILED, "answers")
    assert "ValueError at " in second.what
    assert "canary" not in second.what + second.next
