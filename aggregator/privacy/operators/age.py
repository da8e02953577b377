"""`age`: full years from a birth date to the day of stripping, never above the cap and never below zero.

Invariant: not steady: the same birth date gives another age next year, so that the day is part of the call and keys do
not take it. Text in, text out; what is no ISO date is redacted. Born on 29 February: a year older on 1 March.
"""

from collections.abc import Callable, Sequence
from datetime import date

from aggregator.privacy.operators import text
from aggregator.privacy.operators.calendar import DAY_SECONDS, TICKS, civil_of
from aggregator.privacy.plan.leaf import Leaf, Value
from aggregator.privacy.policy.rules import Age
from aggregator.schema.avro import Kind

_ISO = len("1984-05-06")


def result(leaf: Leaf) -> Leaf | None:
    """A whole number for dates and timestamps, text for text."""
    if leaf.kind is Kind.STRING and leaf.logical is None:
        return leaf
    name = leaf.logical.name if leaf.logical is not None else ""
    return Leaf(Kind.INT) if name == "date" or "timestamp-" in name else None


def build(rule: Age, leaf: Leaf, today: date) -> Callable[[Sequence[Value]], list[Value | None]]:
    """The age of everything."""
    if leaf.kind is Kind.STRING:
        return text.over(lambda born: _of_text(rule, today, born))
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
