"""Questions behind the back of who needs the answers."""

import threading
import time

import pytest

from aggregator.schema.asking_budget import AskingBudget
from aggregator.schema.questions import LookupQueue, StillWaiting


def _until(condition):
    deadline = time.monotonic() + 5
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def questions(wait_s=5.0, runners=4):
    """For who waits so long alone."""
    return LookupQueue(AskingBudget(2 * wait_s), runners)


def answered(asked, about, question, **more):
    """The answer, whenever it comes."""
    deadline = time.monotonic() + 5
    while True:
        try:
            return asked.fetch(about, question, **more)
        except StillWaiting:
            assert time.monotonic() < deadline
            time.sleep(0.005)


def test_an_answer_in_time_is_the_answer():
    """Values and errors alike."""
    asked = questions()
    assert asked.fetch("a", lambda: 1) == 1
    with pytest.raises(ZeroDivisionError):
        asked.fetch("a", lambda: 1 // 0)


@pytest.mark.parametrize("about", ["a", "b"])
def test_a_late_answer_is_for_who_asked(about):
    """It is asked once, however often it is put meanwhile; its end is told to an equal question only."""
    asked, goes_on, count = questions(0.05), threading.Event(), []

    def late():
        count.append(1)
        goes_on.wait(5)
        raise KeyError("late")

    for _ in range(3):
        with pytest.raises(StillWaiting):
            asked.fetch("a", late, lane="a")
    goes_on.set()
    _until(asked._pending["a"].done)
    assert len(count) == 1
    if about == "a":
        with pytest.raises(KeyError):
            asked.fetch("a", lambda: 2)
    assert answered(asked, about, lambda: 2, lane="b") == 2


def test_no_asker_waits_for_another():
    """A lane that hangs holds up itself; with fewer runners than lanes they take turns."""
    asked, goes_on = questions(0.2, runners=2), threading.Event()
    for n in range(3):
        with pytest.raises(StillWaiting):
            asked.fetch(("slow", n), goes_on.wait, lane="slow", wait_s=0.0)
    turns = []
    for n in range(3):
        for lane in ("a", "b"):
            with pytest.raises(StillWaiting):
                asked.fetch((lane, n), lambda name=lane: time.sleep(0.02) or turns.append(name), lane=lane, wait_s=0.0)
    _until(lambda: len(turns) == 6)
    assert turns == ["a", "b"] * 3
    goes_on.set()


def test_who_asks_what_waits_in_another_lane_waits_for_its_own_only():
    """A long lane has a question that another requester has, too: the first of both lanes that comes to it asks it."""
    asked, goes_on, count = questions(5.0), threading.Event(), []
    with pytest.raises(StillWaiting):
        asked.fetch("first", goes_on.wait, lane="long", wait_s=0.0)
    with pytest.raises(StillWaiting):
        asked.fetch("both", lambda: count.append("long"), lane="long", wait_s=0.0)
    asked.fetch("both", lambda: count.append("short"), lane="short")
    assert count == ["short"]
    with pytest.raises(StillWaiting):
        asked.fetch("last", lambda: count.append("last"), lane="long", wait_s=0.0)
    goes_on.set()
    _until(lambda: "last" in count)
    assert count == ["short", "last"], "and once"


def test_an_asker_s_own_question_is_in_its_lane_once():
    """However often it is put; and a lane that is full takes no question of another lane either."""
    asked, goes_on, count = questions(0.01, runners=2), threading.Event(), []
    for lane in ("long", "full"):
        for n in range(1000):
            with pytest.raises(StillWaiting):
                asked.fetch((lane, n), goes_on.wait, lane=lane, wait_s=0.0)
    for _ in range(1000):
        for lane in ("full", "long", "third"):
            with pytest.raises(StillWaiting):
                asked.fetch("both", lambda: count.append(1), lane=lane, wait_s=0.0)
    assert sum(map(len, asked._lanes.values())) < 300
    goes_on.set()
    assert answered(asked, "both", lambda: count.append(1), lane="third") is None
    assert count == [1]


def test_a_machine_that_gives_no_thread_stops_questions_for_the_moment_only(monkeypatch, caplog):
    """Nobody is told that the registry does not know something, and the same questions are asked later."""
    asked, begin = questions(0.2, runners=1), threading.Thread.start

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for about in ("a", "b"):
        with pytest.raises(StillWaiting):
            asked.fetch(about, lambda: 1, lane=about)
    assert "no thread" in caplog.text
    monkeypatch.setattr(threading.Thread, "start", begin)
    assert answered(asked, "b", lambda: 2, lane="b") == 1
    assert answered(asked, "a", lambda: 2, lane="a") == 1


def test_a_question_that_its_lane_has_no_room_for_takes_no_runner(monkeypatch):
    """It is asked another time; what waits in the lane is asked by whoever can."""
    asked, begin = questions(0.2, runners=1), threading.Thread.start

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for n in range(200):
        with pytest.raises(StillWaiting):
            asked.fetch(n, lambda: 1, lane="full", wait_s=0.0)
    monkeypatch.setattr(threading.Thread, "start", begin)
    with pytest.raises(StillWaiting):
        asked.fetch("no room", lambda: 1, lane="full", wait_s=0.0)
    assert answered(asked, 0, lambda: 2, lane="full") == 1


def test_a_lane_is_bounded():
    """What does not fit is asked another time; nothing is kept of it."""
    asked, goes_on = questions(0.01, runners=1), threading.Event()
    for n in range(1000):
        with pytest.raises(StillWaiting):
            asked.fetch(n, goes_on.wait, lane="a", wait_s=0.0)
    assert len(asked._pending) < 200
    goes_on.set()
    assert answered(asked, 999, lambda: "asked", lane="a") == "asked"


def test_what_hangs_is_left_behind():
    """After that the lane is free."""
    asked, goes_on = questions(0.05, runners=1), threading.Event()
    with pytest.raises(StillWaiting):
        asked.fetch("a", goes_on.wait, lane="a")
    assert answered(asked.restarted(), "a", lambda: 2, lane="a") == 2
    goes_on.set()


def test_a_loop_waits_two_seconds_of_any_five():
    """Over all topics together, however many they are; a topic that asked nothing lately always has a share."""
    for topics in (1, 2, 20):
        budget, now_s, waits = AskingBudget(), 0.0, []
        for turn in range(20 * topics):
            topic = str(turn % topics)
            took_s = budget.left_s(now_s, topic)
            assert took_s > 0 or any(one == topic for _, _, one in waits)
            now_s += took_s
            budget.spend(now_s, took_s, topic)
            waits.append((now_s, took_s, topic))
            now_s += 0.01
            assert sum(took_s for at_s, took_s, _ in waits if now_s - at_s < 5.0) <= 2.0
        assert topics > 2 or budget.left_s(now_s, "new") > 0.05


def test_topics_that_ask_much_have_equal_shares():
    """Of those two seconds; one alone has the half of them, and leaves as much for another."""
    budget, spent = AskingBudget(), dict.fromkeys("abcd", 0.0)
    for turn in range(100_000):
        now_s, topic = turn / 1000, "abcd"[turn % 4]
        took_s = min(0.01, budget.left_s(now_s, topic))
        budget.spend(now_s, took_s, topic)
        spent[topic] += took_s
    assert max(spent.values()) < 1.2 * min(spent.values())
