"""This module reads today's date from the machine's clock.

Invariant: code that decides something does not import this module. It gets the date as an argument, so that a test can
choose it.
"""

from datetime import UTC, date, datetime


def utc_today() -> date:
    """Return the day in UTC, by which a `keep` expires."""
    return datetime.now(UTC).date()
