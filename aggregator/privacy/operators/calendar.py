"""Calendar arithmetic on whole days, for every day that an Avro date or timestamp can hold.

Python's own calendar covers the years 1 to 9999 only. This one is proleptic Gregorian; days count from 1970-01-01.
Source: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
Invariant: `days_of` and `civil_of` undo each other.
"""

_ERA_DAYS, _ERA_YEARS, _SHIFT = 146_097, 400, 719_468
_WEEKDAY_OF_EPOCH = 3  # 1970-01-01 was a Thursday; weeks begin on Monday
# Ticks per second of the timestamps' logical types.
TICKS = {"millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
DAY_SECONDS = 86_400


def civil_of(days: int) -> tuple[int, int, int]:
    """Year, month and day of a number of days since 1970-01-01."""
    era, day_of_era = divmod(days + _SHIFT, _ERA_DAYS)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153  # months since March
    month = shifted + 3 if shifted < 10 else shifted - 9  # noqa: PLR2004 - as published
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    return year_of_era + era * _ERA_YEARS + (month <= 2), month, day  # noqa: PLR2004 - as published


def days_of(year: int, month: int, day: int) -> int:
    """The number of days from 1970-01-01 to a date."""
    year -= month <= 2  # noqa: PLR2004 - as published
    era, year_of_era = divmod(year, _ERA_YEARS)
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1  # noqa: PLR2004 - as published
    return era * _ERA_DAYS + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - _SHIFT


def first_day(days: int, unit: str) -> int:
    """The first day of the year, quarter, month, week or day that a day is in."""
    if unit == "week":
        return days - (days + _WEEKDAY_OF_EPOCH) % 7
    year, month, day = civil_of(days)
    match unit:
        case "year":
            return days_of(year, 1, 1)
        case "quarter":
            return days_of(year, (month - 1) // 3 * 3 + 1, 1)
        case "month":
            return days_of(year, month, 1)
    return days_of(year, month, day)
