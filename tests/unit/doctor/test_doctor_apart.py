"""Questions in processes of their own: what ends a child ends nobody else, and what it told before counts."""

import os
import signal
import time

import pytest

from aggregator.doctor.apart import Asked
from aggregator.errors import Unreachable


def test_answers_come_side_by_side_and_the_last_one_counts():
    """Also those that fill a pipe while nobody reads."""

    def wide(tell):
        tell("first")
        time.sleep(0.2)
        tell("x" * 1_000_000)

    began = time.monotonic()
    told = Asked({"a": wide, "b": wide, "c": lambda _: None}, bound_s=20).results()
    assert {name: (len(answer or ""), end) for name, (answer, end) in told.items()} == {
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

    told = Asked({"dies": dies, "lives": lambda tell: tell(1)}, bound_s=20).results()
    assert told == {"dies": ("known before", f"ended by {number.name}"), "lives": (1, "")}


def test_a_child_that_goes_on_is_ended_and_one_that_raises_is_heard():
    """Nobody waits for ever; an error is raised where the answer is read."""
    asked = Asked({"hangs": lambda tell: (tell(1), time.sleep(60))}, bound_s=0.3)
    assert asked.results() == {"hangs": (1, "did not come to an end in time")}

    def fails(_):
        raise Unreachable("no broker answers", hint="start it")

    with pytest.raises(Unreachable, match="no broker answers") as raised:
        Asked({"fails": fails}, bound_s=20).results()
    assert raised.value.hint == "start it"
