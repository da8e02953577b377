"""The lease: how a starting driver learns whether another one lives, without comparing clocks.

Invariant: pure; a lease lives when its record *moves* while it is watched, whatever any clock says.
"""

from enum import StrEnum

from aggregator.state.control import Lease

BEAT_S = 2.0
WATCH_S = 6.0


class LeaseState(StrEnum):
    """What watching the lease has shown so far."""

    FREE = "free"
    HELD = "held"
    WATCHING = "watching"


def lease_state(first: Lease | None, latest: Lease | None, watched_s: float) -> LeaseState:
    """Judge a lease.

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
    return LeaseState.FREE if watched_s >= WATCH_S else LeaseState.WATCHING
