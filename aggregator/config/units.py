"""Parses durations, sizes, rates and start positions as people write them: `30s`, `16MB`, `2MB/s`, `2026-11-01T00:00Z`.

Invariant: a bare number is refused, because its unit would be a guess.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal

from pydantic import TypeAdapter, ValidationError

_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_SHORT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)(ms|s|m|h|d|w)")
_SIZES = {"B": 1, "kB": 1000, "KiB": 1024, "MB": 1000**2, "MiB": 1024**2, "GB": 1000**3, "GiB": 1024**3}
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,9})?)\s*(B|kB|KiB|MB|MiB|GB|GiB)")
LARGEST_SIZE = 2**60
SLOWEST_RATE, FASTEST_RATE = 100_000, 10**10
_ISO_DURATION: TypeAdapter[timedelta] = TypeAdapter(timedelta)


def duration(value: object) -> timedelta:
    """Read `30s`, `5m`, `250ms`, or an ISO 8601 duration; a timedelta comes from code.

    Raises:
        ValueError: no unit, or not a positive duration.
    """
    found = value if isinstance(value, timedelta) else None
    if isinstance(value, str):
        short = _SHORT.fullmatch(value.strip())
        if short:
            found = _bounded(lambda: timedelta(**{_UNITS[short[2]]: float(short[1])}))
        elif value.startswith("P"):
            found = _bounded(lambda: _ISO_DURATION.validate_python(value))
    if found is None:
        raise ValueError("a duration carries its unit: 30s, 5m, 250ms, or ISO 8601 as PT2H")
    if found <= timedelta(0):
        raise ValueError("a duration is longer than nothing")
    return found


def _bounded(read: Callable[[], timedelta]) -> timedelta | None:
    try:
        return read()
    except (ValidationError, OverflowError):
        return None


def size_bytes(value: object) -> int:
    """Read `16MB`, `8MiB`; an int is bytes and comes from code only, because the loader hands text.

    Raises:
        ValueError: no unit, or no size at all.
    """
    size = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if match:
            size = int(Decimal(match[1]) * _SIZES[match[2]])
    if size is None:
        raise ValueError("a size carries its unit: 512kB, 16MB, 8MiB")
    if not 0 < size < LARGEST_SIZE:
        raise ValueError("a size is at least 1B and below 1024 PiB")
    return size


def byte_rate(value: object) -> int:
    """Read `2MB/s`, `512kB/s`; an int is bytes a second and comes from code only.

    Raises:
        ValueError: no unit, or a rate at which heartbeats would not come in time.
    """
    rate = value if isinstance(value, int) and not isinstance(value, bool) else None
    if isinstance(value, str) and value.strip().endswith("/s"):
        size = _SIZE.fullmatch(value.strip().removesuffix("/s").rstrip())
        rate = int(Decimal(size[1]) * _SIZES[size[2]]) if size else None
    if rate is None:
        raise ValueError("a rate carries its unit: 512kB/s, 2MB/s, 8MiB/s (bytes, not bits)")
    if rate > FASTEST_RATE:
        raise ValueError("a rate is at most 10GB/s: leave it out where nothing is to be held")
    if rate < SLOWEST_RATE:
        raise ValueError("a rate is at least 100kB/s: a batch of one megabyte would hold up heartbeats for too long")
    return rate


def start_position(value: object) -> object:
    """Read `earliest`, `latest` or an ISO 8601 time (UTC where it names no zone).

    Raises:
        ValueError: anything else.
    """
    if value in ("earliest", "latest"):
        return value
    found = _time(value)
    if found is None:
        raise ValueError("is `earliest`, `latest` or an ISO 8601 time such as 2026-11-01T00:00Z")
    return found


def moment(value: object) -> datetime:
    """Read an ISO 8601 time (UTC where it names no zone).

    Raises:
        ValueError: anything else.
    """
    found = _time(value)
    if found is None:
        raise ValueError("is an ISO 8601 time such as 2026-11-01T00:00Z")
    return found


def _time(value: object) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, datetime):
        return None
    return value if value.tzinfo else value.replace(tzinfo=UTC)
