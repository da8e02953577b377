"""An edge's account: what arrives counts, what clocks say does not, and a restart goes on where the last hub was."""

import logging
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aggregator.edges.availability import AvailabilityState
from aggregator.edges.heartbeats import Heartbeat
from aggregator.edges.history import by_day, joined, uptime
from aggregator.observe.edge_logs import EdgeLogs
from aggregator.observe.history_rows import day_records, lasting, spans_of
from aggregator.observe.warnings import level_of
from aggregator.replicate.discovery.retention import Margin
from aggregator.state.edge_status import EdgeStatuses, day_record, state_key
from aggregator.state.pauses import Pause
from tests.effort import examples
from tests.unit.observe.story import CENTRAL_MS, FLOW, TICK_S, Story, config, moment

YEAR_MS = 365 * 86_400_000


def test_a_life_with_everything_in_it():
    """Up, cut off for ten seconds, back; stuck, freed; behind, caught up: each state in its time and not before."""
    story = Story()
    assert story.live(8)[0] is AvailabilityState.LAGGING, "its first beat is awaited"
    assert set(story.live(60)) == {AvailabilityState.UP}
    cut = story.live(10, beats=False, answers=False)
    assert cut.index(AvailabilityState.UNREACHABLE) * TICK_S < 5, "three beats and two seconds"
    back = story.live(10)
    assert 3.5 <= back.index(AvailabilityState.UP) * TICK_S < 5, (
        "after it has lasted, within three beats and two seconds"
    )
    stuck = story.live(40, reads=0)
    assert 28 <= stuck.index(AvailabilityState.STALLED) * TICK_S <= 32, "after the window"
    story.live(20, reads=10**6)
    assert story.state is AvailabilityState.UP
    assert story.live(40, reads=7)[-1] is AvailabilityState.LAGGING
    assert story.live(20, reads=10**6)[-1] is AvailabilityState.UP
    assert story.live(10, beats=False)[-1] is AvailabilityState.STALLED, "it answers, but nothing comes through"
    assert story.live(1, gaps=1)[0] is AvailabilityState.LOSING_DATA


def test_the_former_hub_s_beats_are_no_news_however_late_they_are_read():
    """A busy machine reads them seconds later: the edge waits for its first beat, and is not stalled."""
    story = Story()
    story.live(3, beats=False)
    former_ms = CENTRAL_MS - 24_000
    story.account.add_heartbeat(Heartbeat("h", "eu", former_ms), former_ms, moment(story.second).now_s)
    assert set(story.live(12, beats=False)) == {AvailabilityState.LAGGING}
    assert set(story.live(10)[10:]) == {AvailabilityState.UP}
    assert story.live(10, beats=False)[-1] is AvailabilityState.STALLED


def test_a_flow_that_is_overtaken_loses_data_before_it_is_lost():
    """Behind, with less time left than it takes to catch up, counts before the first record is gone."""
    story = Story()
    story.logs = EdgeLogs(margins={FLOW: Margin(200_000, 3_600_000)})
    assert story.live(40, reads=9)[-1] is AvailabilityState.LOSING_DATA
    assert "deletes unread records" in story.account.availability.reason
    quick = Story()
    quick.logs = EdgeLogs(margins={FLOW: Margin(200_000, 3_600_000)})
    quick.live(40, reads=9)
    assert quick.live(20, reads=10**6)[-1] is AvailabilityState.UP


def test_a_pause_is_shown_and_its_end_waits_for_the_first_beat():
    """Paused at once; when it ends, the silence of the pause is not held against the edge."""
    story = Story()
    story.live(40)
    story.pause = Pause("eu", True, "ada@desk", CENTRAL_MS, "brokers are moved")
    assert story.live(100, beats=False, answers=False)[0] is AvailabilityState.PAUSED
    assert "ada@desk" in story.account.availability.reason
    story.pause = replace(story.pause, paused=False)
    assert set(story.live(20, beats=False)) == {AvailabilityState.LAGGING}
    assert story.live(20, beats=False)[-1] is AvailabilityState.STALLED


def test_nobody_writes_beats_and_the_answers_decide():
    """`heartbeats: {emit: false}`, and nothing may be written: silence to questions is silence."""
    story = Story(config(heartbeats={"emit": False}))
    assert set(story.live(60, beats=False)) == {AvailabilityState.UP}
    assert story.live(6, beats=False, answers=False)[-1] is AvailabilityState.UNREACHABLE


def test_a_maintenance_window_is_excused():
    """The state is what it is; the time in the window counts neither way."""
    hub = config(edge={"maintenance": [{"start": "2027-01-15T08:00Z", "lasts": "1h"}]})
    assert CENTRAL_MS == 1_800_000_000_000, "2027-01-15T08:00Z"
    story = Story(hub)
    story.live(10)
    assert story.live(60, beats=False, answers=False)[-1] is AvailabilityState.UNREACHABLE
    assert story.account.maintenance
    found = uptime(story.account.spans, now_ms=moment(story.second).now_ms, window_ms=70_000, objective=0.99)
    assert found.observed < 0.02


def test_the_hubs_own_start_and_change_of_epoch_are_not_charged_to_an_edge():
    """No slot reads and none writes beats: the state says so, and the objective is the edge's own."""

    def available(story):
        return uptime(
            story.account.spans, now_ms=moment(story.second).now_ms, window_ms=10**6, objective=0.99
        ).available

    story = Story()
    assert story.live(60, beats=False, hub_busy=True)[-1] is AvailabilityState.STALLED
    assert set(story.live(120)) == {AvailabilityState.STALLED, AvailabilityState.UP}
    assert story.live(30, beats=False, hub_busy=True)[-1] is AvailabilityState.STALLED
    story.live(60)
    assert available(story) == 1.0
    assert story.live(60, beats=False, answers=False, hub_busy=True)[-1] is AvailabilityState.UNREACHABLE
    assert available(story) < 0.9, "its own silence is its own"
    alone = Story()
    alone.live(60, beats=False)
    assert available(alone) < 0.7


def test_a_bad_state_is_loud_in_the_log():
    """A window that was announced is not."""
    levels = {state: level_of(state, maintenance=False) for state in AvailabilityState}
    assert levels[AvailabilityState.LOSING_DATA] == logging.ERROR
    assert levels[AvailabilityState.UNREACHABLE] == levels[AvailabilityState.STALLED] == logging.WARNING
    assert {levels[AvailabilityState.UP], levels[AvailabilityState.LAGGING], levels[AvailabilityState.PAUSED]} == {
        logging.INFO
    }
    assert level_of(AvailabilityState.UNREACHABLE, maintenance=True) == logging.INFO


STEPS = st.lists(
    st.tuples(st.integers(1, 40), st.booleans(), st.booleans(), st.sampled_from([0, 7, 10, 1000]), st.booleans()),
    min_size=1,
    max_size=6,
)
CLOCKS = st.lists(st.sampled_from([0, 600_000, -600_000, YEAR_MS, -YEAR_MS]), min_size=6, max_size=6)


def play(story, steps, clocks):
    for (seconds, beats, answers, reads, lost), skew_ms in zip(steps, clocks, strict=False):
        story.skew_ms = skew_ms
        story.live(seconds, beats=beats, answers=answers, reads=reads, gaps=int(lost))
    return story


@settings(max_examples=examples(30))
@given(STEPS, CLOCKS)
@pytest.mark.slow
def test_fault_17_no_clock_of_an_edge_changes_a_state(steps, clocks):
    """Ten minutes or a year off, forwards, backwards and changing: states and their times are the same to the look."""
    right, wrong = play(Story(), steps, [0] * 6), play(Story(), steps, clocks)
    assert wrong.states == right.states
    assert wrong.account.spans == right.account.spans


@settings(max_examples=examples(30))
@given(STEPS, st.integers(1, 6))
@pytest.mark.slow
def test_a_restart_goes_on_with_the_states_that_were_told(steps, at):
    """State and history come back from central's records; the time between two hubs belongs to no span."""
    before = play(Story(), steps[:at], [0] * 6)
    account = before.account
    records = [(state_key("eu"), account.state().encode(), 1), (state_key("us"), b"?", 2)]
    records += [(*day_record("eu", day, spans), 3) for day, spans in by_day(account.spans).items()]
    told = EdgeStatuses().with_records(records)
    spans = joined({day: spans_of(rows) for (_, day), rows in told.days.items()})
    assert spans == account.spans
    after = Story(state=told.states["eu"], spans=spans, began=before.second + 100)
    assert after.state is before.state
    after.live(10)
    assert after.account.spans[: len(spans) - 1] == spans[:-1]
    seconds = sum(span.end_ms - span.start_ms for span in after.account.spans) / 1000
    assert seconds <= before.second + 10
    assert list(told.states) == ["eu"], "a damaged record is nobody's state"


@settings(max_examples=examples(30))
@given(STEPS, st.integers(0, 2000))
@pytest.mark.slow
def test_a_reader_sees_the_history_that_the_hub_has(steps, since_ms):
    """What was written when the state changed, and the state since: no second is missing, none is told twice; written
    later it is the same.
    """
    account = play(Story(), steps, [0] * 6).account
    now_ms, changed_ms = account.spans[-1].end_ms, account.availability.since_ms
    at_change = tuple(span for span in account.spans if span.end_ms <= changed_ms)
    later = tuple(span._replace(end_ms=min(span.end_ms, changed_ms + since_ms + 1)) for span in account.spans)
    for written in (at_change, later):
        assert lasting(written, account.state(), now_ms) == account.spans
    assert lasting(account.spans, None, now_ms + 9000) == account.spans, "nobody watches"


def test_history_is_written_when_it_changed_and_forgotten_after_a_month():
    """The present day as it grows, nothing twice, and a tombstone for a day that no window reaches."""
    story = play(Story(), [(10, True, True, 10, False)], [0])
    now_ms = moment(story.second).now_ms
    ((key, value),) = day_records("eu", story.account.spans, {}, now_ms=now_ms)
    assert key == "day/eu/2027-01-15"
    rows = {day: rows for (_, day), rows in EdgeStatuses().with_records([(key, value, 0)]).days.items()}
    assert list(day_records("eu", story.account.spans, rows, now_ms=now_ms)) == []
    old = {"2026-11-01": [[1, 2, "UP", False]]}
    assert list(day_records("eu", (), old, now_ms=now_ms)) == [("day/eu/2026-11-01", None)]
    assert spans_of([[1, 2, "UP", False], ["x"], [1, 2, "ELSE", False]]) == spans_of([[1, 2, "UP", False]])


def test_skew_is_that_of_whoever_writes_near_the_edge():
    """The hub's own beats tell the way's length; those of another writer tell its clock."""
    story = Story()
    story.live(5)
    assert (story.account.latency_ms, story.account.skew_ms) == (40, None)
    near = Story(config(heartbeats={"emit": False}))
    near.skew_ms = -600_000
    near.live(5)
    assert (near.account.latency_ms, near.account.skew_ms) == (None, -600_040)
