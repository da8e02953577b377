"""Leading: epochs follow each other, failures are counted only while none lasts, and a driver proves that it leads."""

import threading
import time

import pytest

from aggregator.errors import FatalError, Fenced, OutcomeUnknown, Unreachable
from aggregator.replicate.driver import Driver
from aggregator.replicate.epoch.epochs import EpochResult, is_old, partitions_to_check
from aggregator.replicate.flow.cursor import Hold, HoldReason
from aggregator.replicate.leadership import leadership
from aggregator.replicate.leadership.leadership import await_lease, run_epochs
from aggregator.replicate.slot.plan import SlotOutcome, SlotResult
from aggregator.state.control import ControlState, Lease
from aggregator.threads import Threads
from tests.unit.replicate.plan_inputs import CONFIG, FLOW

AT = ("eu.orders", 0)


class Renewal:
    """Counts the beats that prove that its driver still leads."""

    def __init__(self, error=None):
        self.beats, self._error = 0, error

    def try_renew(self):
        self.beats += 1
        if self._error:
            raise self._error


class Clock:
    """Time goes on as long as an epoch lasts."""

    def __init__(self):
        self.now_s = 0.0

    def __call__(self):
        return self.now_s


def lead(lengths_s, outcome, *, renewal=None, stop=None):
    """Run epochs of these lengths, each with what `outcome` says of its number; what came, and how many ran."""
    clock, ran, stop = Clock(), [], stop or threading.Event()

    def run():
        clock.now_s += lengths_s[len(ran)]
        ran.append(1)
        found = outcome(len(ran))
        if isinstance(found, Exception):
            raise found
        return found

    result = run_epochs(
        run,
        renewal or Renewal(),
        stop,
        trouble=lambda found: "slot 0 fenced" if found == "fenced" else "",
        is_last=lambda found: found == "drained",
        hint="mend it",
        now=clock,
    )
    return result, len(ran)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nobody waits between two epochs."""
    monkeypatch.setattr(threading.Event, "wait", lambda self, _=None: self.is_set())


def test_five_failures_in_a_row_are_the_end():
    """With what went wrong and what to do; each is followed by a beat."""
    renewal = Renewal()
    with pytest.raises(FatalError, match="5 times in a row: slot 0 fenced"):
        lead([1.0] * 9, lambda _: "fenced", renewal=renewal)
    assert renewal.beats == 5


def test_a_failure_after_a_minute_is_the_first_one_again():
    """A backfill of a day meets many fenced slots; the live flows do so as well: nobody adds them up."""
    assert lead([61.0] * 20, lambda number: "drained" if number == 20 else "fenced") == ("drained", 20)
    with pytest.raises(FatalError):
        lead([61.0] + [1.0] * 4, lambda _: "fenced")


def test_a_success_in_between_counts_anew_and_the_last_epoch_ends_it():
    """Four failures, an epoch that ended by the protocol, four failures, the end."""
    words = ["fenced"] * 4 + ["stopped"] + ["fenced"] * 4 + ["drained"]
    assert lead([1.0] * 10, lambda number: words[number - 1]) == ("drained", 10)


@pytest.mark.parametrize("error", [Fenced("taken"), OutcomeUnknown("no answer")])
def test_what_proves_that_another_leads_comes_out_at_once(error):
    """Rule E: neither in an epoch nor in the beat after one is it tried again."""
    with pytest.raises(type(error)):
        lead([1.0], lambda _: error)
    with pytest.raises(type(error)):
        lead([1.0], lambda _: "fenced", renewal=Renewal(error))


def test_a_central_that_is_away_is_tried_again_and_a_stop_ends_it():
    """A beat shows that the driver still leads; with `stop` set there is no further epoch."""
    words = {1: Unreachable("no broker answers"), 2: "drained"}
    assert lead([1.0] * 2, words.__getitem__) == ("drained", 2)
    stop = threading.Event()
    stop.set()
    assert lead([], lambda _: "drained", stop=stop) == (None, 0)


def test_an_epoch_has_a_greatest_age():
    """What it refused is tried again after five minutes, what its slots hold after half an hour."""
    assert [is_old(age_s, refused=True) for age_s in (299.0, 300.0)] == [False, True]
    assert [is_old(age_s, refused=False) for age_s in (1799.0, 1800.0)] == [False, True]


def test_a_drain_tries_again_what_central_had_not_decided():
    """The leaders of topics that the drain itself has created may come late: until its patience is over they may."""
    driver = Driver(CONFIG, None, {}, identity="me", drain=True, stop=threading.Event(), threads=Threads())
    patience_s = CONFIG.replication.drain_patience.total_seconds()
    undecided, other = (
        EpochResult((), (Hold(FLOW, reason, "why"),)) for reason in (HoldReason.UNDECIDED, HoldReason.RETENTION)
    )
    now_s = time.monotonic()
    assert driver._await_central(undecided, now_s)
    assert not driver._await_central(undecided, now_s - patience_s)
    assert not driver._await_central(other, now_s)


@pytest.mark.parametrize(
    ("result", "closed", "first", "later"),
    [
        (SlotResult.DRAINED, (), True, True),
        (SlotResult.DRAINED, (AT,), False, True),
        (SlotResult.STOPPED, (AT,), False, True),
        (SlotResult.STOPPED, (), False, False),
    ],
)
def test_a_drain_ends_when_all_is_visible_or_its_patience_is_over(result, closed, first, later):
    """Another epoch settles what the slots left undecided; where none can, the drain ends and says so."""
    stop, edgeless = threading.Event(), CONFIG.model_copy(update={"edges": {}})
    driver = Driver(edgeless, None, {}, identity="me", drain=True, stop=stop, threads=Threads())
    ended = EpochResult((SlotOutcome(0, result, undecided_partitions=closed),), ())
    now_s, patience_s = time.monotonic(), edgeless.replication.drain_patience.total_seconds()
    assert ended.undecided == frozenset(closed)
    assert [driver._is_over(ended, now_s), driver._is_over(ended, now_s - patience_s)] == [first, later]


def test_of_very_many_partitions_later_epochs_ask_about_those_that_were_named():
    """A driver's first epoch asks about all, because nobody has told it anything."""
    few, many = {("t", 1)}, {("t", partition) for partition in range(501)}
    assert partitions_to_check(few, {AT}, is_first=True) is partitions_to_check(many, {AT}, is_first=True) is None
    assert partitions_to_check(few, {AT}, is_first=False) == {AT, *few}
    assert partitions_to_check(many, {AT}, is_first=False) == {AT}


class Central:
    """Answers what the lease is; each answer takes its time."""

    def __init__(self, clock, answers):
        self._clock, self._answers = clock, list(answers)

    def read_control(self):
        took_s, lease = self._answers.pop(0)
        self._clock.now_s += took_s
        return ControlState(lease=lease)


def turn(*answers):
    """The seconds after which a standby takes its turn, and how many answers it did without."""
    clock, left = Clock(), [*answers]
    central = Central(clock, left)
    await_lease(central, "a hub", standby=True, stop=threading.Event(), hint="", now=clock)
    return clock.now_s, len(central._answers)


def test_a_standby_watches_only_while_central_answers():
    """Central stood still for a minute: nobody could move the lease, and its holder lives."""
    first, moved = Lease("first", 1), Lease("first", 2)
    released = Lease("first", 3, released=True)
    assert turn((0.0, first), (60.0, first), (0.0, moved), (0.0, released)) == (60.0, 0)
    assert turn(*[(0.4, first)] * 20) == (pytest.approx(16 * 0.4), 4), "nobody moves it for six seconds"
    assert turn(*[(2.0, first)] * 20)[1] == 7, "however slowly central answers"


@pytest.mark.parametrize(
    ("error", "hint"),
    [
        (OutcomeUnknown("h.driver: timed out"), "start it again"),
        (OutcomeUnknown("h.driver: no right", hint="aggregator acls print --for central"), "acls print --for central"),
    ],
    ids=["a time-out", "a right that was taken away"],
)
def test_a_driver_that_lost_central_says_what_mends_it(monkeypatch, error, hint):
    """Starting again mends a time-out, and no missing right."""
    monkeypatch.setattr(leadership, "_TAKEN_OVER_S", 0.0)
    told = leadership.explain_fencing(None, 0, "me", error)
    assert isinstance(told, FatalError)
    assert hint in told.hint
