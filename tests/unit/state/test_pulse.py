"""How long a command waits before it says that no hub watches."""

import pytest

from aggregator.state.edge_status import pulse_patience_s


@pytest.mark.parametrize(
    ("age_ms", "patience_s"),
    [
        (0, 0),
        (2_999, 0),
        (-2_999, 0),  # the clocks differ
        (4_000, 10),  # a machine that is short of time, a standby that takes over
        (-30_000, 10),
        (60_001, 3),  # long gone, or a wrong clock: a hub that watches writes in time
        (-86_400_000, 3),
    ],
)
def test_a_pulse_that_is_late_is_waited_for_longer_than_one_that_is_gone(age_ms, patience_s):
    """Nobody is told that no hub watches while one is only slow; of a hub that is long gone it is told soon."""
    assert pulse_patience_s(age_ms) == patience_s
