"""The lease tells a starting driver whether another driver is alive, without a comparison of clocks.

Invariant: pure; the functions that look and wait are arguments. A lease is alive if its record *changes* while it is
watched. No clock takes part in that.
"""

from collections.abc import Callable
from enum import StrEnum

from aggregator.state.control import Lease

RENEW_INTERVAL_S = 2.0
LEASE_TIMEOUT_S = 6.0
RENEW_SLACK_S = 0.5
ANOTHER_HUB_HINT = "stop it, wait for it with --standby, or replace it with --take-over"


class LeaseState(StrEnum):
    """The state of the lease, as far as the watch has shown it."""

    FREE = "free"
    HELD = "held"
    WATCHING = "watching"


def watch_for_leader(look: Callable[[], Lease | None], wait: Callable[[float], object], *, tick_s: float = 0.1) -> bool:
    """Whether a hub is seen to lead, within a beat: a courtesy before anything slow begins, and no proof.

    Args:
        look: The lease now.
        wait: Waits for so many seconds.
        tick_s: Between two looks.
    """
    first = latest = look()
    for _ in range(round((RENEW_INTERVAL_S + RENEW_SLACK_S) / tick_s)):
        state = lease_state(first, latest, 0.0)
        if state is not LeaseState.WATCHING:
            return state is LeaseState.HELD
        wait(tick_s)
        latest = look()
    return lease_state(first, latest, 0.0) is LeaseState.HELD


def lease_state(first: Lease | None, latest: Lease | None, watched_s: float) -> LeaseState:
    """Judge whether a driver holds the lease.

    Args:
        first: The lease when watching began; None if there was none.
        latest: The lease now.
        watched_s: Seconds between the two.

    Returns:
        FREE when there is none, it was released, or it did not move for six seconds; HELD when it moved.
    """
    if latest is None or latest.released:
        return LeaseState.FREE
    if first is not None and (first.driver, first.beat) != (latest.driver, latest.beat):
        return LeaseState.HELD
    return LeaseState.FREE if watched_s >= LEASE_TIMEOUT_S else LeaseState.WATCHING
