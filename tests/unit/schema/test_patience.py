"""Waiting for answers."""

import threading
import time

import pytest

from aggregator.schema.patience import Patience, StillWaiting


def _until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_answer_in_time_is_the_answer():
    """Values and errors alike."""
    patience = Patience(5)
    assert patience.ask("a", lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        patience.ask("a", lambda: 1 // 0)


@pytest.mark.parametrize("about", ["a", "b"])
def test_a_late_answer_is_for_who_asked(about):
    """While a question is under way nobody waits and nothing else is asked; its end is told to an equal one only."""
    patience, goes_on, done = Patience(0.05), threading.Event(), threading.Event()

    def late():
        goes_on.wait(5)
        done.set()
        raise KeyError("late")

    for asked in ("a", "a", "b"):
        with pytest.raises(StillWaiting):
            patience.ask(asked, late)
    goes_on.set()
    _until(patience._pending[1].done)
    assert done.is_set()
    if about == "a":
        with pytest.raises(KeyError):
            patience.ask("a", lambda: 2)
    assert patience.ask(about, lambda: 2) == 2
