"""Central's clock, learnt from stamps; and maintenance windows."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.model import MaintenanceWindow
from aggregator.edges.clock import CentralClock
from aggregator.edges.maintenance import in_maintenance

START = datetime(2026, 11, 7, 2, tzinfo=UTC)


def ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def test_the_wall_clock_stands_in_until_central_is_heard():
    """Then central's stamps alone count, however far this machine's clock is off."""
    assert CentralClock().now_ms(5.0, wall_ms=77) == 77
    assert CentralClock().with_stamp(1_000_000, 5.0).now_ms(7.5, wall_ms=77) == 1_002_500


@given(
    st.integers(-(10**13), 10**13),
    st.floats(-1e-4, 1e-4),
    st.lists(st.sampled_from([0.001, 0.01, 0.5, 5.0]), min_size=30, max_size=120),
)
def test_the_quickest_stamp_of_the_last_minutes_tells(offset_ms, drift, delays):
    """Late by the quickest stamp of the last minute or two, and ahead only by what the clocks drift in that time."""
    clock = CentralClock()
    for second, delay_s in enumerate(delays):
        now_s = float(second * 2)
        central_ms = offset_ms + now_s * (1 + drift) * 1000
        clock = clock.with_stamp(int(central_ms - delay_s * 1000), now_s)
        error_ms = clock.now_ms(now_s, wall_ms=0) - central_ms
        assert -min(delays[max(0, second - 28) : second + 1]) * 1000 - 20 <= error_ms <= 20


@pytest.mark.parametrize(
    ("every", "after", "inside"),
    [
        (None, timedelta(0), True),
        (None, timedelta(hours=2), False),
        (None, timedelta(seconds=-1), False),
        (None, timedelta(days=7), False),
        (timedelta(days=7), timedelta(days=7, hours=1), True),
        (timedelta(days=7), timedelta(days=70, hours=2), False),
        (timedelta(days=7), timedelta(days=-7), False),
    ],
)
def test_a_window_is_half_open_and_may_come_again(every, after, inside):
    """From its start on, for as long as it lasts; never before its first start."""
    window = MaintenanceWindow(start=START, lasts=timedelta(hours=2), every=every)
    assert in_maintenance([window], ms(START + after)) == inside
    assert not in_maintenance([], ms(START + after))
