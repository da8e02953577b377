"""Parameters of the operators that make values coarser: numbers, texts, times, places."""

import zoneinfo
from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from aggregator.privacy.policy.parameters.model import Model
from aggregator.privacy.policy.parameters.opening import Justified

Number = Annotated[float, Field(allow_inf_nan=False, ge=-1e18, le=1e18)]
Unit = Literal["year", "quarter", "month", "week", "day", "hour", "minute"]
SMALLEST_SIZE = 1e-9


class Bucket(Justified):
    """A number becomes the text of its interval: of one `size`, or between the bounds in `ranges`."""

    operator: Literal["bucket"] = "bucket"
    size: Annotated[Number, Field(ge=SMALLEST_SIZE)] | None = None
    ranges: Annotated[tuple[Number, ...], Field(min_length=1, max_length=1000)] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """Intervals are told in one way, and bounds grow."""
        if (self.size is None) is (self.ranges is None):
            raise ValueError("bucket has either `size` or `ranges`")
        if any(low >= high for low, high in pairwise(self.ranges or ())):
            raise ValueError("`ranges` are bounds in ascending order")
        return self


class Round(Justified):
    """A number keeps so many decimals; a negative number of them rounds before the point. Half to even."""

    operator: Literal["round"] = "round"
    digits: Annotated[int, Field(ge=-18, le=15)]


class Truncate(Justified):
    """A text keeps its first graphemes, bytes their first bytes."""

    operator: Literal["truncate"] = "truncate"
    length: Annotated[int, Field(ge=0, le=100_000)]


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


class Age(Model):
    """A birth date becomes full years on the day of stripping (UTC), at most `cap`."""

    operator: Literal["age"] = "age"
    cap: Annotated[int, Field(ge=1, le=150)] = 90


class Geo(Justified):
    """A coordinate keeps so many `decimals`; a text `lat,lon` does, or becomes a geohash of that length."""

    operator: Literal["geo"] = "geo"
    decimals: Annotated[int, Field(ge=0, le=6)] | None = None
    geohash: Annotated[int, Field(ge=1, le=9)] | None = None

    @model_validator(mode="after")
    def one_of_both(self) -> Self:
        """A place is made coarser in one way."""
        if (self.decimals is None) is (self.geohash is None):
            raise ValueError("geo has either `decimals` or `geohash`")
        return self
