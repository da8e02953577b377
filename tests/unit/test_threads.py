"""Threads under supervision: whatever ends one, it is said, it begins again, and the process ends where it must."""

import logging
import threading
import time
from itertools import pairwise

import pytest

from aggregator.backoff import Backoff
from aggregator.errors import AnotherHub, FatalError, Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.replicate.leadership import lease_renewal as keeping
from aggregator.replicate.leadership.lease_renewal import LeaseRenewal
from aggregator.threads import ThreadCondition, Threads

SECRET = "4111 1111 1111 1111"


class Panic(BaseException):
    """What libraries of Rust raise."""


@pytest.fixture
def stop():
    """Ends what a test has begun."""
    made = threading.Event()
    yield made
    made.set()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Pauses and looks as they are, in a fifth and a tenth of their time."""
    monkeypatch.setattr("aggregator.threads._PAUSES", Backoff(first_s=0.1, most_s=30.0))
    monkeypatch.setattr("aggregator.threads._LOOK_EVERY_S", 0.1)


def wait_for(condition, within_s=5.0):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.01)


def of(threads, name):
    """The status of one thread."""
    return {one.name: one for one in threads.statuses()}.get(name)


@pytest.mark.parametrize(
    "error", [OverflowError(SECRET), Panic(SECRET), SystemExit(3), FatalError("the ledger is damaged")]
)
def test_a_thread_that_dies_begins_again_and_is_told(stop, caplog, error):
    """Whatever ended it: one of ours with its words, a foreign one by its name and place, and never with its text."""
    threads, lives = Threads(stop), []

    def body(pulse):
        pulse()
        lives.append(1)
        if len(lives) == 1:
            raise error
        stop.wait(10)

    with caplog.at_level(logging.INFO):
        threads.start("lake", body, stop=stop, bound_s=60)
        wait_for(lambda: len(lives) == 2)
    told = of(threads, "lake")
    assert (told.condition, told.restarts, told.is_well) == (ThreadCondition.RUNNING, 1, True)
    expected = (
        "the ledger is damaged" if isinstance(error, FatalError) else f"{type(error).__name__} at test_threads.py:"
    )
    assert expected in told.error
    assert expected in caplog.text
    assert SECRET not in told.error + caplog.text
    assert not stop.is_set(), "it is not vital"


def test_it_begins_again_ever_more_rarely_and_waits_in_between(stop):
    """A thread that dies at once is `restarting`, and told as not well, for longer and longer."""
    threads, began = Threads(stop), []

    def body(_):
        began.append(time.monotonic())
        raise OverflowError

    threads.start("monitor", body, stop=stop, bound_s=60)
    wait_for(lambda: len(began) == 3 and of(threads, "monitor").condition is ThreadCondition.RESTARTING)
    assert not of(threads, "monitor").is_well
    pauses = [after - before for before, after in pairwise(began)]
    assert [pause > least for pause, least in zip(pauses, (0.09, 0.19), strict=True)] == [True, True]


@pytest.mark.parametrize("error", [Fenced("another took the id"), AnotherHub("another hub took over")])
def test_what_ends_the_process_by_design_ends_it_with_its_exit_code(stop, error):
    """A vital thread's `ExitError` sets the process's stop, and comes out where its end is decided."""
    threads = Threads(stop)

    def body(_):
        raise error

    threads.start("lake", body, stop=stop, bound_s=60, vital=True)
    wait_for(stop.is_set)
    with pytest.raises(type(error)) as raised:
        threads.check()
    assert raised.value.exit_code == error.exit_code
    assert of(threads, "lake").condition is ThreadCondition.DEAD


def test_a_vital_thread_that_never_lives_ends_the_process(stop, monkeypatch):
    """Five failures in a row, and no more: then the process says why, and ends with 1."""
    monkeypatch.setattr("aggregator.threads._PAUSES", Backoff(first_s=0.002, most_s=30.0))
    threads, lives = Threads(stop), []

    def body(_):
        lives.append(1)
        raise OverflowError(SECRET)

    threads.start("lake", body, stop=stop, bound_s=60, vital=True)
    wait_for(stop.is_set)
    with pytest.raises(FatalError, match="thread lake ended 5 times in a row: OverflowError") as raised:
        threads.check()
    assert raised.value.exit_code == 1
    assert SECRET not in str(raised.value)
    assert len(lives) == 5


@pytest.mark.slow
def test_a_thread_that_hangs_is_named_and_named_again_when_it_moves(stop, caplog):
    """No pulse for its bound: hanging, in the log and where it is told; nothing is ended by force."""
    threads, moves, told = Threads(stop), threading.Event(), []

    def body(pulse):
        moves.wait(20)
        while not stop.wait(0.05):
            pulse()

    with caplog.at_level(logging.INFO):
        threads.start("edge-eu", body, stop=stop, bound_s=0.3)
        threads.watch(stop, told.append)
        wait_for(lambda: "thread edge-eu hangs: no pulse for over 0 s" in caplog.text)
        assert of(threads, "edge-eu").condition is ThreadCondition.HANGING
        moves.set()
        wait_for(lambda: "thread edge-eu moves again" in caplog.text)
    assert of(threads, "edge-eu").is_well
    assert ThreadCondition.HANGING in {one.condition for each in told for one in each if one.name == "edge-eu"}


def test_a_thread_that_ends_as_it_should_is_forgotten(stop):
    """Neither its end nor an error while the process stops is anybody's trouble; the calling thread counts, too."""
    threads = Threads(stop)
    threads.start("warming", lambda _: None, stop=stop, bound_s=None).join(5)
    assert threads.statuses() == ()
    with threads.watching("driver", 60.0):
        assert of(threads, "driver").is_well
    stop.set()

    def late(_):
        raise OverflowError

    threads.start("lake", late, stop=stop, bound_s=60).join(5)
    assert threads.statuses() == ()
    threads.check()


class Beats:
    """A central that answers beats with these errors, one after the other."""

    def __init__(self, errors):
        self._errors = [None, *errors]

    def authentication_error(self):
        return ""

    def publish(self, _):
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error


@pytest.mark.parametrize(
    ("error", "kind"),
    [(OverflowError(SECRET), OutcomeUnknown), (Panic(SECRET), OutcomeUnknown), (Fenced("taken"), Fenced)],
)
def test_whatever_ends_the_beating_the_lease_is_lost(stop, monkeypatch, error, kind):
    """A renewal that died of anything lets its driver know, which ends with 6 or 1; it does not lead on unknowingly."""
    monkeypatch.setattr(keeping, "RENEW_INTERVAL_S", 0.01)
    renewal = LeaseRenewal(Beats([TransactionAborted("again"), error]), "me")
    renewal.start(Threads(stop))
    wait_for(lambda: renewal.lost is not None)
    assert isinstance(renewal.lost, kind)
    assert SECRET not in str(renewal.lost)
    renewal.stop()


def test_a_lake_alone_does_not_end_for_a_central_that_is_away(stop):
    """What comes right by itself is tried again, also by a vital thread, as long as it is not five times in a row."""
    threads, lives = Threads(stop), []

    def body(_):
        lives.append(1)
        if len(lives) < 3:
            raise Unreachable("no broker answers")
        stop.wait(10)

    threads.start("lake", body, stop=stop, bound_s=60, vital=True)
    wait_for(lambda: len(lives) == 3)
    assert not stop.is_set()


def test_the_first_error_that_ends_the_process_is_told():
    """What follows it is its consequence."""
    threads = Threads()
    threads.end(FatalError("the cause"))
    threads.end(FatalError("what followed"))
    with pytest.raises(FatalError, match="the cause"):
        threads.check()


def test_the_end_of_an_older_thread_hides_no_newer_one_of_its_name():
    """The newest thread of a name is told."""
    threads, stop, older = Threads(), threading.Event(), threading.Event()
    first = threads.start("work", lambda _: older.wait(), stop=stop, bound_s=None)
    second = threads.start("work", lambda _: stop.wait(), stop=stop, bound_s=None)
    older.set()
    first.join(10)
    assert [one.name for one in threads.statuses()] == ["work"]
    stop.set()
    second.join(10)
    assert threads.statuses() == ()
