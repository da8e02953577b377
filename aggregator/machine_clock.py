"""This module reads the date and the time from the machine's clock.

Invariant: code that decides something does not import this module. It gets the moment as an argument, so that a test
can choose it.
"""

import time
from datetime import UTC, date, datetime


def utc_today() -> date:
    """The day in UTC, by which a `keep` expires."""
    return datetime.now(UTC).date()


def utc_now_ms() -> int:
    """The milliseconds since 1970, as Kafka stamps records; the clock may be set back."""
    return int(time.time() * 1000)
