"""Movement: caught up, behind, stuck, judged from offsets alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.edges.movement import WINDOW_S, FlowSample, Movement, Track

LIFE = (0, "id")


def track(*looks: tuple[float, int, int], life=LIFE) -> Track:
    """A track of (seconds, position, end)."""
    found = Track(life)
    for at_s, position, end in looks:
        found = found.with_sample(life, FlowSample(at_s, position, end))
    return found


def always(offset):
    """An offset that stays where it is."""
    return lambda _: offset


def steady(position, end, *, seconds=40) -> Track:
    """A track over many looks, of functions of the second."""
    return track(*((float(second), int(position(second)), int(end(second))) for second in range(0, seconds, 2)))


@pytest.mark.parametrize(
    ("position", "end", "expected"),
    [
        pytest.param(always(5), always(5), "", id="idle"),
        pytest.param(lambda s: 1000 * s, lambda s: 1000 * s + 900, "", id="busy, a second behind"),
        pytest.param(lambda s: 1000 * s, lambda s: 1000 * s + 5000, "behind", id="busy, five seconds behind"),
        pytest.param(lambda s: s, always(5000), "behind", id="catching up slowly"),
        pytest.param(always(7), always(8), "stuck", id="one record waits, whatever the rate"),
        pytest.param(always(7), lambda s: 7 + max(0, s - 30), "", id="waits for less than the window"),
        pytest.param(lambda s: 7 if s < 20 else 500, always(500), "", id="caught up just now"),
    ],
)
def test_a_flow_is_judged_by_what_it_has_passed(position, end, expected):
    """No thresholds in records: behind is not to have passed, at any look, the end of the look before it."""
    found = steady(position, end)
    assert found.is_stuck() == (expected == "stuck")
    assert (found.is_behind() and not found.is_stuck()) == (expected == "behind")
    summed = Movement.of([found, steady(always(3), always(3))])
    assert (summed.stuck, summed.behind, summed.flows) == (expected == "stuck", expected == "behind", 2)


def test_waiting_is_told_from_the_first_look_that_saw_it():
    """The oldest waiting record had arrived when the end first passed the position."""
    found = track((0, 10, 10), (2, 10, 12), (4, 11, 15), (6, 11, 20))
    assert found.waited_s == 4.0
    assert found.lag_records == 9
    assert track((0, 10, 10)).waited_s == 0.0


def test_the_time_to_drain_follows_from_the_window():
    """Records that became fewer per second; without any the drain has no end."""
    assert track((0, 0, 1000), (10, 500, 1000)).drains_s == 10.0
    assert track((0, 0, 1000), (10, 500, 1600)).drains_s == float("inf")
    assert track((0, 1000, 1000)).drains_s == 0.0


def test_another_life_begins_anew():
    """Offsets of a recreated topic, or after a rewind, are another incarnation's: nothing is compared with them."""
    before = steady(always(7), always(9))
    assert before.is_stuck()
    assert not before.with_sample((1, "id"), FlowSample(50, 7, 9)).is_stuck()


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=2, max_size=40),
    st.integers(0, 10**12),
    st.integers(1, 10**6),
)
def test_judgements_know_no_scale_and_no_origin(steps, origin, scale):
    """The same movement a million times faster, from any offset on, is judged the same: nothing counts in records."""

    def walk(first: int, factor: int) -> Track:
        found, position, end = Track(LIFE), first, first
        for place, (read, arrived) in enumerate(steps):
            end += arrived * factor
            position = min(end, position + read * factor)
            found = found.with_sample(LIFE, FlowSample(2.0 * place, position, end))
        return found

    one, other = walk(0, 1), walk(origin, scale)
    assert (one.is_stuck(), one.is_behind(), one.waited_s) == (other.is_stuck(), other.is_behind(), other.waited_s)
    assert one.spans_s <= WINDOW_S + 2.0, "the past is bounded"
    assert not one.is_stuck() or one.is_behind()


@pytest.mark.parametrize(
    ("end", "stood_s"),
    [
        pytest.param(always(5), 30.0, id="the whole window"),
        pytest.param(lambda s: s, 0.0, id="moved at the last look"),
        pytest.param(lambda s: min(s, 30), 8.0, id="moved within the window"),
    ],
)
def test_how_long_an_end_has_stood(end, stood_s):
    """From the first look that saw it there to the last one; an unseen flow has stood for no time."""
    assert steady(always(0), end, seconds=40).stood_s == stood_s
    assert Track(LIFE).stood_s == 0
