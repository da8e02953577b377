"""Durations, sizes and start positions: units are written, and what is read is exact."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.show import _duration
from aggregator.config.units import (
    FASTEST_RATE,
    LARGEST_SIZE,
    SLOWEST_RATE,
    byte_rate,
    duration,
    size_bytes,
    start_position,
)

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
SIZES = {"B": 1, "kB": 10**3, "KiB": 2**10, "MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}


@given(st.integers(1, 10_000), st.sampled_from(sorted(UNITS)))
def test_a_duration_is_its_number_times_its_unit(number, unit):
    """Every whole number of every unit is read exactly."""
    assert duration(f"{number}{unit}") == timedelta(milliseconds=number * UNITS[unit])


@given(st.timedeltas(timedelta(microseconds=1), timedelta(days=10_000)))
def test_a_shown_duration_is_read_back(value):
    """Whatever is printed as a duration means the same when it is loaded."""
    assert duration(_duration(value)) == value


@given(st.integers(1, 10**6), st.sampled_from(sorted(SIZES)))
def test_a_size_is_its_number_times_its_unit(number, unit):
    """Every whole number of every unit is read exactly, beyond what a float can hold."""
    assert size_bytes(f"{number}{unit}") == number * SIZES[unit]
    assert size_bytes(f"{number} {unit}") == number * SIZES[unit]


@given(st.integers(1, 10**6), st.sampled_from(sorted(SIZES)))
def test_a_rate_is_a_size_each_second(number, unit):
    """Every whole number of every unit, from the slowest on at which beats come in time."""
    expected = number * SIZES[unit]
    if expected > FASTEST_RATE:
        with pytest.raises(ValueError, match="at most 10GB/s"):
            byte_rate(f"{number}{unit}/s")
    elif expected >= SLOWEST_RATE:
        assert byte_rate(f"{number}{unit}/s") == expected
    else:
        with pytest.raises(ValueError, match="at least 100kB/s"):
            byte_rate(f"{number}{unit}/s")


@pytest.mark.parametrize("text", ["2MB", "2", "2000000/s", "16Mbit/s", "2Mb/s", "2MB/min", "/s", "-2MB/s", "2MBps", ""])
def test_a_rate_without_its_unit_is_refused(text):
    """Bits and other times are none, because they would be taken for bytes a second."""
    with pytest.raises(ValueError, match="carries its unit"):
        byte_rate(text)


@given(st.one_of(st.text(max_size=12), st.integers(), st.floats(), st.none(), st.booleans(), st.lists(st.text())))
def test_anything_is_read_or_refused_with_a_value_error(value):
    """No input makes a reader fail in another way, or give something that is not positive."""
    for read in (duration, size_bytes, byte_rate, start_position):
        try:
            found: Any = read(value)
        except ValueError:
            continue
        assert found in ("earliest", "latest") or found > type(found)(0) or isinstance(found, datetime)


@given(st.integers(), st.sampled_from(["", ".5"]))
def test_a_bare_number_is_refused(number, fraction):
    """A number without a unit is a guess, however it is written."""
    for read in (duration, size_bytes):
        with pytest.raises(ValueError, match="carries its unit"):
            read(f"{number}{fraction}")


@pytest.mark.parametrize(
    "text", ["0s", "0ms", "P0D", "-P1D", "999999999999999w", "1S", "1 s", "s", "PT", "1_0s", "\u0661s"]
)
def test_what_is_no_positive_duration_is_refused(text):
    """Nothing, negative, beyond the calendar, or another spelling."""
    with pytest.raises(ValueError, match="a duration"):
        duration(text)


@pytest.mark.parametrize("text", ["0B", "1kb", "1K", "-1MB", "99999999999GiB", "1e3B"])
def test_what_is_no_size_is_refused(text):
    """Nothing, negative, too large, or another spelling."""
    with pytest.raises(ValueError, match="a size"):
        size_bytes(text)


def test_values_from_code_pass():
    """A timedelta and a count of bytes come from code, where their unit is known."""
    assert duration(timedelta(seconds=3)) == timedelta(seconds=3)
    assert size_bytes(4096) == 4096
    with pytest.raises(ValueError, match="a size"):
        size_bytes(LARGEST_SIZE)


def test_iso_durations_are_read():
    """ISO 8601 beside the short form."""
    assert duration("PT2H") == timedelta(hours=2)
    assert duration("P1DT0.5S") == timedelta(days=1, milliseconds=500)


def test_a_start_is_a_word_or_a_time():
    """Times without a zone are UTC; a zone is kept."""
    assert start_position("earliest") == "earliest"
    assert start_position("latest") == "latest"
    assert start_position("2026-11-01T00:00Z") == datetime(2026, 11, 1, tzinfo=UTC)
    assert start_position("2026-11-01") == datetime(2026, 11, 1, tzinfo=UTC)
    assert start_position("2026-11-01T02:00+02:00") == datetime(2026, 11, 1, tzinfo=UTC)
    with pytest.raises(ValueError, match="ISO 8601"):
        start_position("yesterday")
