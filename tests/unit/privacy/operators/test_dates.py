"""`date_truncate`, `age`, and the calendar below them."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from aggregator.privacy.operators.calendar import civil_of, days_of
from tests.unit.privacy.operators.single import DATE, TEXT, one, rule, timestamp

EPOCH = date(1970, 1, 1)
UNITS = ["year", "quarter", "month", "week", "day", "hour", "minute"]
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata", "Pacific/Apia"]


def _days(text):
    return (date.fromisoformat(text) - EPOCH).days


def _millis(text):
    return round(datetime.fromisoformat(text).timestamp() * 1000)


@given(st.dates())
def test_the_calendar_is_pythons(day):
    """Where Python has years, both agree, there and back."""
    days = (day - EPOCH).days
    assert civil_of(days) == (day.year, day.month, day.day)
    assert days_of(day.year, day.month, day.day) == days


@given(st.integers(-(2**63), 2**63))
def test_the_calendar_has_no_end(days):
    """Any day has a date, and every date its day."""
    assert days_of(*civil_of(days)) == days


@pytest.mark.parametrize(
    ("unit", "begin"),
    [("year", "2024-01-01"), ("quarter", "2024-01-01"), ("month", "2024-02-01"), ("week", "2024-02-26")],
)
def test_dates(unit, begin):
    """The first day of the unit; weeks begin on Monday."""
    assert one(rule("date_truncate", unit=unit), _days("2024-02-29"), DATE) == _days(begin)


@pytest.mark.parametrize(
    ("unit", "tz", "at", "begin"),
    [
        ("year", "UTC", "2024-02-29T23:30:15+00:00", "2024-01-01T00:00:00+00:00"),
        ("day", "UTC", "1969-12-31T23:30:15+00:00", "1969-12-31T00:00:00+00:00"),
        ("hour", "UTC", "2024-02-29T23:30:15+00:00", "2024-02-29T23:00:00+00:00"),
        ("day", "Europe/Berlin", "2024-02-29T23:30:15+00:00", "2024-02-29T23:00:00+00:00"),
        ("month", "Europe/Berlin", "2024-07-15T12:00:00+00:00", "2024-06-30T22:00:00+00:00"),
        ("quarter", "Europe/Berlin", "2024-05-15T12:00:00+00:00", "2024-03-31T22:00:00+00:00"),
        ("hour", "Asia/Kolkata", "2024-01-01T00:10:00+00:00", "2023-12-31T23:30:00+00:00"),
        ("hour", "Europe/Berlin", "2024-10-27T00:30:00+00:00", "2024-10-27T00:00:00+00:00"),
        ("hour", "Europe/Berlin", "2024-10-27T01:30:00+00:00", "2024-10-27T01:00:00+00:00"),
        ("day", "America/Sao_Paulo", "2018-11-04T12:00:00+00:00", "2018-11-04T03:00:00+00:00"),
        ("minute", "Europe/Berlin", "2024-01-01T00:10:59+00:00", "2024-01-01T00:10:00+00:00"),
    ],
)
def test_timestamps(unit, tz, at, begin):
    """At the zone's wall clock; an hour that comes twice is two hours, a midnight that is left out is the next time."""
    made = rule("date_truncate", unit=unit, tz=tz)
    assert one(made, _millis(at), timestamp("timestamp-millis")) == _millis(begin)
    assert one(made, _millis(at) * 1000 + 999, timestamp("timestamp-micros")) == _millis(begin) * 1000
    assert one(made, _millis(at) * 10**6 + 1, timestamp("timestamp-nanos")) == _millis(begin) * 10**6


def test_local_timestamps_have_no_zone():
    """Their wall clock is their own, whatever the rule's zone is."""
    made = rule("date_truncate", unit="day", tz="Europe/Berlin")
    local = timestamp("local-timestamp-millis")
    assert one(made, _millis("2024-02-29T23:30:15+00:00"), local) == _millis("2024-02-29T00:00:00+00:00")


@given(st.datetimes(datetime(2, 1, 3), datetime(9999, 12, 29)), st.sampled_from(UNITS), st.sampled_from(ZONES))  # noqa: DTZ001 - UTC below
def test_truncating_twice_is_truncating_once(at, unit, zone):
    """And never later than the moment itself, in any zone and unit."""
    made, leaf = rule("date_truncate", unit=unit, tz=zone), timestamp("timestamp-millis")
    value = (at.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    once = one(made, value, leaf)
    assert once <= value
    assert one(made, once, leaf) == once
    local = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=once)).astimezone(ZoneInfo(zone))
    # Until 1914 clocks were set to a zone by odd seconds, and some midnights were never seen.
    assert at.year <= 1914 or local.second == local.microsecond == 0


@given(st.integers(-(2**62), 2**62), st.sampled_from(UNITS))
def test_utc_has_no_end(value, unit):
    """Any timestamp can be cut in UTC, at most a leap year before itself."""
    once = one(rule("date_truncate", unit=unit), value, timestamp("timestamp-millis"))
    assert 0 <= value - once < 366 * 86_400_000


def test_a_clock_that_cannot_show_it_fails():
    """Beyond Python's years no zone is known: an error, and with it a rejected record."""
    with pytest.raises(OverflowError):
        one(rule("date_truncate", unit="day", tz="Europe/Berlin"), 2**62, timestamp("timestamp-millis"))


@pytest.mark.parametrize("tz", ["Mars/Olympus", "../../etc/passwd", "", "Europe"])
def test_zones_are_iana(tz):
    """Anything else is refused when the policy is read."""
    with pytest.raises(ValidationError, match="IANA"):
        rule("date_truncate", unit="day", tz=tz)


@pytest.mark.parametrize(
    ("born", "today", "age"),
    [
        ("2000-11-01", date(2026, 11, 1), 26),
        ("2000-11-02", date(2026, 11, 1), 25),
        ("2004-02-29", date(2026, 2, 28), 21),
        ("2004-02-29", date(2026, 3, 1), 22),
        ("1900-01-01", date(2026, 11, 1), 90),
        ("2030-01-01", date(2026, 11, 1), 0),
    ],
)
def test_ages(born, today, age):
    """Full years, from dates, timestamps and ISO text, between zero and the cap."""
    made = rule("age")
    assert one(made, _days(born), DATE, today=today) == age
    assert one(made, _days(born) * 86_400_000 + 1, timestamp("timestamp-millis"), today=today) == age
    assert one(made, born, TEXT, today=today) == one(made, f"{born}T12:00Z", TEXT, today=today) == str(age)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(1, 150))
def test_no_age_is_above_the_cap(born, cap):
    """Whatever the birth date."""
    assert 0 <= one(rule("age", cap=cap), born, DATE) <= cap


@pytest.mark.parametrize("born", ["", "1 May 1984", "1984-13-01", "1984-05-06x", "05/06/1984", "84-05-06"])
def test_what_is_no_date_is_redacted(born):
    """A birth date that cannot be read shows nothing."""
    assert one(rule("age"), born) == "[REDACTED]"
