"""Values that several commands take: times, durations, and topic patterns.

Invariant: what cannot be read is refused before anything is asked for.
"""

from datetime import UTC, datetime, timedelta

import click

from aggregator.config.patterns import full_matches
from aggregator.config.units import duration, start_position


class Moment(click.ParamType[datetime]):
    """An ISO 8601 time, or a duration before now."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read one.

        Raises:
            click.BadParameter: it is neither.
        """
        if isinstance(value, datetime):
            return value
        try:
            return datetime.now(UTC) - duration(value)
        except ValueError:
            pass
        try:
            found = start_position(value)
        except ValueError:
            found = None
        if not isinstance(found, datetime):
            self.fail("is an ISO 8601 time, or how long ago, as 2h or P1D", param, ctx)
        return found


class Length(click.ParamType[timedelta]):
    """A duration with its unit."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Read one.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            return duration(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Pattern(click.ParamType[str]):
    """A regular expression on the whole name of a topic, as the configuration has them."""

    name = "pattern"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Read one.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            full_matches(str(value), [])
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)
