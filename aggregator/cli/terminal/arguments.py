"""Reads values that several commands take: times, durations and topic patterns.

Invariant: a value that cannot be read is refused before any cluster is asked.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import click

from aggregator.config.patterns import full_matches
from aggregator.config.units import duration, start_position
from aggregator.reasons import says_something

T = TypeVar("T")


class TimeArgument(click.ParamType[datetime]):
    """An ISO 8601 time, or a duration before now."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Convert an ISO 8601 time, or a duration before now, to a time.

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


class Parsed(click.ParamType[T]):
    """A value that a function of the configuration reads.

    Args:
        name: The type's name in the help.
        read: Reads one; raises ValueError, whose words say what is wrong, for anything else.
    """

    def __init__(self, name: str, read: Callable[[Any], T]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> T:
        """Convert an argument with the given function.

        Raises:
            click.BadParameter: it is none.
        """
        try:
            return self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


def _pattern(value: str) -> str:
    full_matches(value, [])
    return value


def _reason(value: str) -> str:
    if not says_something(value):
        raise ValueError("says nothing: whoever looks at the decision later will read it")
    return value


# The reason for a person's decision.
REASON = Parsed("text", _reason)
# A duration with its unit.
LENGTH = Parsed("duration", duration)
# A regular expression on the whole name of a topic, as in the configuration.
PATTERN = Parsed("pattern", _pattern)
