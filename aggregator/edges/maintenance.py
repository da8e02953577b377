"""A maintenance window is a time at which an edge may be away without an alert and without cost to its objective.

Invariant: pure, in UTC. A window is half-open. A recurring window never ends.
"""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from aggregator.config.model import MaintenanceWindow


def in_maintenance(windows: Iterable[MaintenanceWindow], now_ms: int) -> bool:
    """Whether a moment lies in one of the windows.

    Args:
        windows: Windows of one edge.
        now_ms: Milliseconds since 1970.
    """
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return any(_covers(window, now - window.start) for window in windows)


def _covers(window: MaintenanceWindow, since: timedelta) -> bool:
    if since < timedelta(0):
        return False
    return (since % window.every if window.every else since) < window.lasts
