"""This module writes times as text, from milliseconds since 1970.

Invariant: every number has a text. A producer at an edge sets the times of its records, and a number can lie outside
the calendar. Such a number is shown as the calendar's first or last moment.
"""

from datetime import UTC, datetime

_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_000


def utc(milliseconds: float) -> datetime:
    """A time in UTC, bounded by the years that the calendar has."""
    return datetime.fromtimestamp(min(max(milliseconds, _FIRST_MS), _LAST_MS) / 1000, UTC)


def to_the_second(milliseconds: float) -> str:
    """A moment in UTC as people read it, such as `2026-11-23 17:30:00`."""
    return f"{utc(milliseconds):%Y-%m-%d %H:%M:%S}"


def iso(milliseconds: float, *, timespec: str = "seconds") -> str:
    """A moment as ISO 8601 in UTC, such as `2026-11-23T17:30:00Z`."""
    return utc(milliseconds).isoformat(timespec=timespec).replace("+00:00", "Z")
