"""The day by this machine's clock, for whoever gives the time to what decides.

Invariant: what decides does not import this. It gets the day as an argument, so that a test can give any.
"""

from datetime import UTC, date, datetime


def utc_today() -> date:
    """The day in UTC, by which a `keep` expires."""
    return datetime.now(UTC).date()
