"""The state of an edge."""

import pytest

from aggregator.edges.availability import Observation, State, judge


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (Observation(True, 800, 0, 0), State.UP),
        (Observation(True, 5_000, 0, 0), State.UP),
        (Observation(True, 5_001, 0, 0), State.STALLED),
        (Observation(True, None, 0, 0), State.STALLED),
        (Observation(True, 800, 60_001, 0), State.LAGGING),
        (Observation(False, 800, 0, 0), State.UNREACHABLE),
        (Observation(False, 800, 0, 1), State.LOSING_DATA),
    ],
)
def test_the_worst_finding_wins(seen, state):
    """Gaps before reachability before beats before lag; three beats and two seconds are the patience."""
    found, why = judge(seen)
    assert found is state
    assert why
