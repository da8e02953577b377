"""Maintenance windows, the objective, and where metrics are served: read as written, refused where they say nothing."""

from datetime import UTC, datetime, timedelta

import pytest


def with_window(good: str, window: str) -> str:
    """The configuration with a maintenance window of its first edge."""
    return good.replace('"directory:schemas"}', f'"directory:schemas", maintenance: [{window}]}}', 1)


def test_windows_objective_and_address_are_read(load, good):
    """A time without a zone is UTC's; a port alone is one of loopback; without any of them nothing changes."""
    text = with_window(good, "{start: 2026-11-07T02:00, lasts: 2h, every: 7d}")
    config = load(text + "availability: {objective: 99.5}\nmetrics: {listen: 9464, partitions: true}\n")
    (window,) = config.edges["eu"].maintenance
    assert window.start == datetime(2026, 11, 7, 2, tzinfo=UTC)
    assert (window.lasts, window.every) == (timedelta(hours=2), timedelta(days=7))
    assert config.availability.objective == 99.5
    assert (config.metrics.listen, config.metrics.partitions) == ("127.0.0.1:9464", True)
    plain = load(good)
    assert (plain.edges["eu"].maintenance, plain.metrics.listen, plain.availability.objective) == ((), None, 99.9)


@pytest.mark.parametrize(
    ("window", "told"),
    [
        ("{start: soon, lasts: 2h}", "maintenance[0].start: is an ISO 8601 time"),
        ("{start: 2026-11-07T02:00Z, lasts: 2}", "maintenance[0].lasts: a duration carries its unit"),
        ("{start: 2026-11-07T02:00Z}", "maintenance[0].lasts: is missing"),
        ("{start: 2026-11-07T02:00Z, lasts: 2h, every: 1h}", "the edge would always be in maintenance"),
        ("{start: 2026-11-07T02:00Z, last: 2h}", "maintenance[0].last: is not known; did you mean `lasts`?"),
    ],
)
def test_a_window_that_says_nothing_is_refused(faults, good, window, told):
    """Each with its place."""
    assert any(told in line for line in faults(with_window(good, window)))


@pytest.mark.parametrize(
    ("section", "told"),
    [
        ("availability: {objective: 100}", "availability.objective: "),
        ("availability: {objective: 0}", "availability.objective: "),
        ('metrics: {listen: "host"}', "metrics.listen: is `host:port`"),
        ('metrics: {listen: ":9464"}', "metrics.listen: is `host:port`"),
        ('metrics: {listen: "h:70000"}', "metrics.listen: is `host:port`"),
    ],
)
def test_objectives_and_addresses_that_cannot_be_are_refused(faults, good, section, told):
    """An objective of all of the time has no burn; an address names a port."""
    assert any(told in line for line in faults(f"{good}{section}\n"))
