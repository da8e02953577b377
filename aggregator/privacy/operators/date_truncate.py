"""`date_truncate`: a date or timestamp becomes the beginning of its year, quarter, month, week, day, hour or minute.

Invariant: the type stays, and what was truncated once stays as it is. Timestamps are cut at the wall clock of the
rule's zone; local timestamps have no zone and take none. A timestamp that the zone's clock can not show fails.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time, timedelta
from functools import partial
from zoneinfo import ZoneInfo

from aggregator.privacy.operators.calendar import DAY_SECONDS, TICKS, first_day
from aggregator.privacy.plan.leaf import Leaf, Value
from aggregator.privacy.policy.rules import DateTruncate

_WITHIN_DAY = {"hour": 3_600, "minute": 60}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDINAL = _EPOCH.toordinal()


def result(rule: DateTruncate, leaf: Leaf) -> Leaf | None:
    """The same type; a date is never cut to a day or less, because nothing would happen to it."""
    name = leaf.logical.name if leaf.logical is not None else ""
    if name == "date":
        return leaf if rule.unit != "day" and rule.unit not in _WITHIN_DAY else None
    return leaf if "timestamp-" in name else None


def build(rule: DateTruncate, leaf: Leaf) -> Callable[[Sequence[Value]], list[Value | None]]:
    """The beginning of everything."""
    name = leaf.logical.name if leaf.logical is not None else ""
    if name == "date":
        return lambda values: [first_day(int(value), rule.unit) for value in values]
    ticks = TICKS[name.rpartition("-")[2]]
    plain = name.startswith("local-") or rule.tz == "UTC"
    cut = partial(_plain, rule.unit) if plain else partial(_zoned, rule.unit, ZoneInfo(rule.tz))
    return lambda values: [cut(int(value) // ticks) * ticks for value in values]


def _plain(unit: str, seconds: int) -> int:
    if unit in _WITHIN_DAY:
        return seconds - seconds % _WITHIN_DAY[unit]
    return first_day(seconds // DAY_SECONDS, unit) * DAY_SECONDS


def _zoned(unit: str, zone: ZoneInfo, seconds: int) -> int:
    local = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    if unit in _WITHIN_DAY:  # `replace` keeps the fold, so that an hour that comes twice stays two
        cut = local.replace(second=0, microsecond=0, minute=0 if unit == "hour" else local.minute)
    else:
        first = first_day(local.toordinal() - _ORDINAL, unit)
        cut = datetime.combine(_EPOCH.date() + timedelta(days=first), time(), zone)
    return (cut.astimezone(UTC) - _EPOCH) // timedelta(seconds=1)
