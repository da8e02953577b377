"""`age`: a birth date becomes full years on the day of stripping, never above the cap and never below zero.

Invariant: the result is not deterministic. The same birth date gives another age next year, so the day is part of the
call, and record keys do not accept this operator. Input and output are text, and a text that is not an ISO date is
redacted. A person born on 29 February is a year older on 1 March.
"""

from datetime import date
from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators.calendar import DAY_SECONDS, TICKS, civil_of
from aggregator.privacy.operators.descriptor import Descriptor, KeyRings, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.text import over
from aggregator.schema.avro import Kind

_ISO = len("1984-05-06")


class Age(Parameters):
    """A birth date becomes full years on the day of stripping (UTC), at most `cap`."""

    operator: Literal["age"] = "age"
    cap: Annotated[int, Field(ge=1, le=150)] = 90


def result(_rule: Age, leaf: Leaf) -> Leaf | None:
    """A whole number for dates and timestamps, text for text."""
    if leaf.kind is Kind.STRING and leaf.logical is None:
        return leaf
    name = leaf.logical.name if leaf.logical is not None else ""
    return Leaf(Kind.INT) if name == "date" or "timestamp-" in name else None


def build(rule: Age, leaf: Leaf, _key_rings: KeyRings, context: str) -> Operator:
    """The age of everything, on the day that is its context."""
    today = date.fromisoformat(context)
    if leaf.kind is Kind.STRING:
        return over(lambda born: _of_text(rule, today, born))
    name = leaf.logical.name if leaf.logical is not None else ""
    ticks = 1 if name == "date" else DAY_SECONDS * TICKS[name.rpartition("-")[2]]
    return lambda values: [_years(rule, today, civil_of(int(value) // ticks)) for value in values]


def _of_text(rule: Age, today: date, born: str) -> str | None:
    born = born.strip()
    try:
        if len(born) > _ISO and born[_ISO] not in "T ":
            return None
        day = date.fromisoformat(born[:_ISO])
    except ValueError:
        return None
    return str(_years(rule, today, (day.year, day.month, day.day)))


def _years(rule: Age, today: date, born: tuple[int, int, int]) -> int:
    year, *birthday = born
    years = today.year - year - ([today.month, today.day] < birthday)
    return max(0, min(years, rule.cap))


AGE = Descriptor(
    parameters=Age,
    strongest=PrivacyClass.IRREVERSIBLE,
    result=result,
    build=build,
    context=lambda _rule, _topic, _path, today: today.isoformat(),
    is_coarser=lambda rule, other: rule.cap <= other.cap,
    is_deterministic=False,
)
