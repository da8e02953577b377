"""`date_truncate`: a date or timestamp becomes the beginning of its year, quarter, month, week, day, hour or minute.

Invariant: the type stays, and truncating again changes nothing. Timestamps are cut at the wall clock of the rule's
zone. Local timestamps have no zone, and a rule for them names none. A timestamp that the zone's clock cannot show
fails.
"""

import zoneinfo
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Annotated, Literal
from zoneinfo import ZoneInfo

from pydantic import AfterValidator

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.calendar import DAY_SECONDS, TICKS, first_day
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass, clear_if
from aggregator.privacy.operators.parameters import Justified

Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute"]
# Every later unit consists of whole earlier units. Weeks are left out, because they do not fill months.
_UNITS = ("minute", "hour", "day", "month", "quarter", "year")

_WITHIN_DAY = {"hour": 3_600, "minute": 60}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDINAL = _EPOCH.toordinal()


def _zone(value: str) -> str:
    try:
        zoneinfo.ZoneInfo(value)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("`tz` is no time zone of the IANA database, like Europe/Berlin") from None
    return value


class DateTruncate(Justified):
    """A date or timestamp becomes the beginning of its unit; weeks begin on Monday, timestamps count in `tz`."""

    operator: Literal["date_truncate"] = "date_truncate"
    unit: Unit
    tz: Annotated[str, AfterValidator(_zone)] = "UTC"


def privacy_class(rule: DateTruncate) -> PrivacyClass:
    """The privacy class of a unit: days and shorter units leave a birth date in clear."""
    return clear_if(rule.unit == "day" or rule.unit in _WITHIN_DAY)


def is_coarser(rule: DateTruncate, other: DateTruncate) -> bool:
    """A unit that is made of whole other ones, at the same clock."""
    if rule.tz != other.tz or "week" in (rule.unit, other.unit):
        return False
    return _UNITS.index(rule.unit) >= _UNITS.index(other.unit)


def result(rule: DateTruncate, leaf: Leaf) -> Leaf | None:
    """The type of the leaf; None for other types, and where a date would be cut to a day or less."""
    name = leaf.logical.name if leaf.logical is not None else ""
    if name == "date":
        return leaf if rule.unit != "day" and rule.unit not in _WITHIN_DAY else None
    return leaf if "timestamp-" in name else None


def build(rule: DateTruncate, leaf: Leaf, *_: object) -> Operator:
    """Build the operator that replaces dates and times by the beginning of their unit."""
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


DATE_TRUNCATE = Descriptor(
    parameters=DateTruncate,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=result,
    build=build,
    is_coarser=is_coarser,
)
