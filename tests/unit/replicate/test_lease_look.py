"""A second hub is told before anything slow begins; a lease that nobody moves keeps nobody out."""

import pytest

from aggregator.replicate.leadership.lease import RENEW_INTERVAL_S, RENEW_SLACK_S, watch_for_leader
from aggregator.state.control import Lease


@pytest.mark.parametrize(
    ("moves_at", "released", "led"),
    [(0.0, False, True), (RENEW_INTERVAL_S, False, True), (10.0, False, False), (10.0, True, False)],
)
def test_a_lease_that_moves_within_a_beat_is_led(moves_at, released, led):
    """Within two and a half seconds, whoever holds it."""
    waited = []

    def look():
        return Lease("other", int(sum(waited) > moves_at), released)

    assert watch_for_leader(look, waited.append) is led
    assert sum(waited) <= RENEW_INTERVAL_S + RENEW_SLACK_S + 0.01


def test_without_a_lease_nobody_leads():
    """A first start waits for nothing."""
    waited = []
    assert not watch_for_leader(lambda: None, waited.append)
    assert waited == []
