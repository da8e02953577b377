"""The state of an edge: what each finding means, and that states change when, and only when, they should."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.edges.availability import (
    SEVERITY,
    Availability,
    AvailabilityFinding,
    AvailabilityState,
    Observation,
    Patience,
    judge,
)
from aggregator.edges.movement import Movement

PATIENCE = Patience()
TICK_S = 0.5
FINE = Observation(watched_s=1000, answered_s=0.5, beat_s=0.8)
STUCK = Movement(3, 40, stuck=1, behind=0, waited_s=31)
BEHIND = Movement(3, 40, stuck=0, behind=2, waited_s=31, gained_per_s=-5)
GAINING = Movement(3, 40, stuck=0, behind=2, waited_s=31, gained_per_s=5)


@pytest.mark.parametrize(
    ("changes", "state", "words"),
    [
        ({}, AvailabilityState.UP, "heartbeats arrive"),
        ({"beats": False, "beat_s": None}, AvailabilityState.UP, "nobody writes heartbeats"),
        ({"answered_s": None, "trouble": "no route"}, AvailabilityState.UP, "heartbeats arrive"),
        ({"answered_s": 90}, AvailabilityState.UP, "heartbeats arrive"),
        ({"beat_s": 4.9}, AvailabilityState.UP, "heartbeats arrive"),
        ({"beat_s": 5.1}, AvailabilityState.STALLED, "has arrived for 5 s"),
        ({"beat_s": None}, AvailabilityState.STALLED, "has arrived yet"),
        ({"beat_s": None, "beat_came": False, "watched_s": 20}, AvailabilityState.LAGGING, "is awaited"),
        ({"beat_s": 0.1, "beat_came": False, "watched_s": 20}, AvailabilityState.LAGGING, "is awaited"),
        ({"beat_s": None, "beat_came": False, "watched_s": 31}, AvailabilityState.STALLED, "has arrived yet"),
        ({"beat_s": 900, "watched_s": 2}, AvailabilityState.UP, "heartbeats arrive"),
        ({"beat_s": 4.1, "answered_s": 4.1, "trouble": "down"}, AvailabilityState.UNREACHABLE, "for 4 s (down)"),
        ({"beat_s": 4.1, "answered_s": 3.9}, AvailabilityState.UP, "heartbeats arrive"),
        ({"beats": False, "beat_s": None, "answered_s": 5}, AvailabilityState.UNREACHABLE, "no answer for 5 s"),
        (
            {"beat_s": None, "answered_s": None, "watched_s": float("inf")},
            AvailabilityState.UNREACHABLE,
            "nor an answer",
        ),
        (
            {"movement": STUCK, "trouble": "no leader"},
            AvailabilityState.STALLED,
            "1 flow wait and have not moved for 31 s",
        ),
        ({"movement": BEHIND}, AvailabilityState.LAGGING, "more arrive than are delivered"),
        ({"movement": GAINING}, AvailabilityState.LAGGING, "catching up, about 8 s to go"),
        ({"gaps": 1, "answered_s": 90, "beat_s": 90}, AvailabilityState.LOSING_DATA, "1 flow wanted offsets"),
        ({"expiring_flows": 2, "left_s": 40.0}, AvailabilityState.LOSING_DATA, "2 flows, the first in 40 s"),
        ({"expiring_flows": 1}, AvailabilityState.LOSING_DATA, "at any moment"),
        ({"hub_waits": "it begins", "beat_s": 12}, AvailabilityState.LAGGING, "it begins"),
        ({"hub_waits": "it begins", "movement": STUCK}, AvailabilityState.LAGGING, "it begins"),
        ({"hub_waits": "it begins", "beat_s": 5, "answered_s": 5}, AvailabilityState.UNREACHABLE, "for 5 s"),
        ({"hub_waits": "it begins", "gaps": 1, "beat_s": 12}, AvailabilityState.LOSING_DATA, "1 flow wanted"),
        ({"hub_waits": "it begins"}, AvailabilityState.UP, "heartbeats arrive"),
        ({"paused": "by ada: moved", "gaps": 3}, AvailabilityState.PAUSED, "by ada: moved"),
    ],
)
def test_what_each_finding_means(changes, state, words):
    """The worst finding wins, a pause before all; silence is silence in beats and in answers; reasons are words."""
    found = judge(replace(FINE, **changes), PATIENCE)
    assert found.state is state
    assert words in found.reason


def test_an_edge_that_falls_silent_is_unreachable_within_three_beats_and_two_seconds():
    """Found at the first look after four seconds; what is left of five is for telling it and reading it."""
    silent_s = next(
        s / 10 for s in range(100) if judge(silence(s / 10), PATIENCE).state is AvailabilityState.UNREACHABLE
    )
    assert silent_s + TICK_S < 3 + 2
    slow = Patience(beat_s=5)
    assert judge(silence(16.1), slow).state is AvailabilityState.UNREACHABLE
    assert judge(silence(15.9), slow).state is AvailabilityState.UP


def silence(seconds: float) -> Observation:
    return replace(FINE, answered_s=seconds, beat_s=seconds)


@st.composite
def observations(draw) -> Observation:
    """Anything that could be seen of an edge."""
    age = st.one_of(st.none(), st.floats(0, 1e4))
    return Observation(
        watched_s=draw(st.floats(0, 1e6)),
        answered_s=draw(age),
        beat_s=draw(age),
        beat_came=draw(st.booleans()),
        beats=draw(st.booleans()),
        movement=draw(st.sampled_from([Movement(), STUCK, BEHIND, GAINING])),
        gaps=draw(st.integers(0, 2)),
        expiring_flows=draw(st.integers(0, 2)),
        left_s=draw(st.floats(0, 1e5)),
        trouble=draw(st.sampled_from(["", "no route to host"])),
        paused=draw(st.sampled_from(["", "", "by ada: moved"])),
    )


WORSE = (
    {"gaps": 5},
    {"expiring_flows": 5},
    {"answered_s": None, "beat_s": None, "watched_s": 1e9},
    {"movement": STUCK},
)


@given(observations(), st.sampled_from(WORSE))
def test_more_trouble_never_gives_a_better_state(seen, worse):
    """Whatever else is seen; and every state comes with a sentence."""
    before, after = judge(seen, PATIENCE), judge(replace(seen, **worse), PATIENCE)
    assert SEVERITY[after.state] >= SEVERITY[before.state]
    assert before.reason
    assert after.reason


@given(observations())
def test_a_limit_explains_a_state_and_changes_none(seen):
    """While it holds something back, whatever the state is; a pause and a gap have reasons of their own."""
    before, after = judge(seen, PATIENCE), judge(replace(seen, limited="limited to 2 MB/s"), PATIENCE)
    assert after.state is before.state
    assert after.reason in (before.reason, f"{before.reason}; limited to 2 MB/s")
    if not seen.paused and not seen.gaps:
        assert after.reason != before.reason


FINDINGS = st.sampled_from([AvailabilityFinding(state, f"it is {state}") for state in AvailabilityState])
# How long each finding is seen, in looks of half a second.
STORIES = st.lists(st.tuples(FINDINGS, st.integers(1, 30)), max_size=12)


def told(story, before=Availability()):  # noqa: B008 - frozen
    """Every (finding, availability) of a story."""
    now_s, found = 0.0, before
    for finding, looks in story:
        for _ in range(looks):
            now_s += TICK_S
            found = found.with_finding(finding, now_s=now_s, now_ms=int(now_s * 1000), settle_s=PATIENCE.settle_s)
            yield now_s, finding, found


@given(STORIES)
def test_a_worse_finding_counts_at_once_and_a_better_one_when_it_has_lasted(story):
    """Never better than what is found now, nor than the worst that was found within the settling time: no flapping."""
    before, past = None, []
    for now_s, finding, found in told(story):
        past.append((now_s, finding.state))
        assert SEVERITY[found.state] >= SEVERITY[finding.state] or AvailabilityState.PAUSED in {before, finding.state}
        if before is not None and SEVERITY[found.state] < SEVERITY[before] and before is not AvailabilityState.PAUSED:
            recent = [SEVERITY[state] for at_s, state in past if at_s >= now_s - PATIENCE.settle_s]
            assert SEVERITY[found.state] >= max(recent)
        if AvailabilityState.PAUSED in {finding.state, before}:
            assert found.state is finding.state, "a pause, and its end, count at once"
        before = found.state


@given(STORIES, FINDINGS)
def test_what_lasts_becomes_the_state(story, finding):
    """Whatever came before: after the settling time an edge is what it is found to be, with that reason."""
    *_, (_, _, found) = told([*story, (finding, int(PATIENCE.settle_s / TICK_S) + 1)])
    assert found.state is finding.state
    assert finding.reason in found.reason


@given(STORIES, st.integers(0, 100))
def test_a_restart_changes_no_state(story, at):
    """Going on from the state that was told is going on: only a recovery that was under way begins anew."""
    looks = list(told(story))
    for _, finding, found in looks[at : at + 1]:
        again = Availability(found.state, found.reason, found.since_ms)
        after = again.with_finding(finding, now_s=1e9, now_ms=10**12, settle_s=PATIENCE.settle_s)
        assert after.state is found.state
        assert after.since_ms == found.since_ms
