"""History: spans, their days, and what they say of availability."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.edges.availability import AvailabilityState
from aggregator.edges.history import (
    DAY_MS,
    StateSpan,
    bounded,
    by_day,
    expired_days,
    joined,
    kept,
    recorded,
    uptime,
    uptimes,
)

HOUR_MS = 3_600_000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2


@st.composite
def histories(draw):
    """Spans as looks would make them, with pauses in which nobody watched."""
    spans, at_ms = (), NOON_MS
    for _ in range(draw(st.integers(0, 40))):
        start_ms = at_ms + draw(st.sampled_from([0, 0, 0, HOUR_MS, 3 * DAY_MS]))
        at_ms = start_ms + draw(st.sampled_from([1, 500, 61_000, HOUR_MS, DAY_MS + 7]))
        state, excused = draw(st.sampled_from(list(AvailabilityState))), draw(st.booleans())
        spans = recorded(spans, state, from_ms=start_ms, now_ms=at_ms, excused=excused)
    return spans, at_ms


@given(histories())
def test_spans_are_in_order_and_apart(history):
    """Whatever is recorded: no span overlaps another, and neighbours differ or do not touch."""
    spans, _ = history
    for before, after in pairwise(spans):
        assert before.start_ms < before.end_ms <= after.start_ms
        assert before.end_ms < after.start_ms or before[2:] != after[2:]


@given(histories())
def test_days_hold_the_history_whole(history):
    """Cut at midnight, written day by day and joined again, it is the same."""
    spans, _ = history
    days = by_day(spans)
    assert all(span.start_ms // DAY_MS == (span.end_ms - 1) // DAY_MS for found in days.values() for span in found)
    assert joined(days) == spans


@given(histories(), st.sampled_from([HOUR_MS, DAY_MS, 30 * DAY_MS]))
def test_availability_is_the_share_of_the_watched_time(history, window_ms):
    """Counted millisecond by millisecond in another way: up / (up + down), nothing else counts; burn is errors over
    what the objective allows.
    """
    spans, now_ms = history
    edges = sorted({now_ms - window_ms, now_ms, *(t for span in spans for t in span[:2])})
    up = down = 0
    for start, end in pairwise(edges):
        state = next((s for s in spans if s.start_ms <= start and end <= s.end_ms), None)
        if start >= now_ms - window_ms and end <= now_ms and state and not state.excused:
            up += (end - start) * (state.state in {AvailabilityState.UP, AvailabilityState.LAGGING})
            down += (end - start) * (
                state.state in {AvailabilityState.STALLED, AvailabilityState.UNREACHABLE, AvailabilityState.LOSING_DATA}
            )
    found = uptime(spans, now_ms=now_ms, window_ms=window_ms, objective=0.99)
    assert found.observed == pytest.approx((up + down) / window_ms)
    if up + down:
        assert found.available == pytest.approx(up / (up + down))
        assert found.burn == pytest.approx(down / (up + down) / 0.01)
    else:
        assert (found.available, found.burn) == (None, None)


@given(histories(), st.integers(1, 10))
def test_a_day_is_bounded_to_the_worse_side(history, most):
    """Many changes are told more coarsely: never more spans than allowed, from the same first to the same last moment,
    and an edge never looks more available for it.
    """
    spans, now_ms = history
    found = bounded(spans, most)
    assert len(found) <= most or len(spans) <= most
    if spans:
        assert (found[0].start_ms, found[-1].end_ms) == (spans[0].start_ms, spans[-1].end_ms)
    for span in spans:
        (over,) = [one for one in found if one.start_ms <= span.start_ms and span.end_ms <= one.end_ms]
        assert list(AvailabilityState).index(over.state) >= list(AvailabilityState).index(span.state)
    assert now_ms >= 0


def test_one_bad_minute_of_an_hour():
    """The figures that a person checks by hand."""
    spans = (
        StateSpan(NOON_MS - HOUR_MS, NOON_MS - 60_000, AvailabilityState.UP),
        StateSpan(NOON_MS - 60_000, NOON_MS, AvailabilityState.UNREACHABLE),
    )
    found = uptimes(spans, now_ms=NOON_MS, objective=0.999)
    assert found["1h"].available == pytest.approx(59 / 60)
    assert found["1h"].burn == pytest.approx(1000 / 60)
    assert found["24h"].observed == pytest.approx(1 / 24)


def test_what_no_window_reaches_is_forgotten():
    """Thirty days, and the records of days before that."""
    old, young = StateSpan(0, 5, AvailabilityState.UP), StateSpan(NOON_MS - 5, NOON_MS, AvailabilityState.UP)
    assert kept((old, young), NOON_MS) == (young,)
    assert expired_days(["2024-01-01", "2024-10-01", "1970-01-01"], NOON_MS) == ["1970-01-01", "2024-01-01"]
