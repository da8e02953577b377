"""Which of two rules takes more of a value, as far as that can be proved from the rules alone.

Invariants: reflexive, and the comparison of B with A is the mirror of the comparison of A with B. What is not proved is
`other`, never `same`. Only parameters whose coarser result follows from the finer one are ordered: a mask that may show
fewer signs shows *more* of a short value, because one that would show all shows none.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

from aggregator.privacy.policy import rules
from aggregator.privacy.policy.rules import AnyRule, privacy_class

# Every later unit is made of whole earlier ones; weeks do not fill months.
_UNITS = ("minute", "hour", "day", "month", "quarter", "year")


class Strictness(StrEnum):
    """What became of one place of a policy."""

    SAME = "same"
    STRICTER = "stricter"
    LOOSER = "looser"
    OTHER = "other"

    @property
    def loosens(self) -> bool:
        """Whether somebody has to agree: more is left of a value, or it is not proved that there is not."""
        return self in (Strictness.LOOSER, Strictness.OTHER)


def compared(before: AnyRule, after: AnyRule) -> Strictness:
    """What `after` leaves of a value, seen from what `before` leaves of it."""
    less, more = _at_most(after, before), _at_most(before, after)
    if less and more:
        return Strictness.SAME
    if less:
        return Strictness.STRICTER
    return Strictness.LOOSER if more else Strictness.OTHER


def together(verdicts: Iterable[Strictness]) -> Strictness:
    """One verdict over several days or several meanings of one place."""
    found = set(verdicts) - {Strictness.SAME}
    if not found:
        return Strictness.SAME
    return found.pop() if len(found) == 1 else Strictness.OTHER


def _at_most(rule: AnyRule, other: AnyRule) -> bool:
    """Whether it is proved that `rule` leaves no more than `other`."""
    classes = privacy_class(rule), privacy_class(other)
    if classes[0] != classes[1]:
        return classes[0] > classes[1]
    if isinstance(rule, rules.Nullify) or isinstance(other, rules.Keep):
        return True
    if isinstance(rule, rules.Redact):  # a constant; but where nothing was, nothing stays, and that can be seen
        return not isinstance(other, rules.Nullify)
    if type(rule) is not type(other):
        return False
    rule, other = _bare(rule), _bare(other)
    return rule == other or (type(rule) in _COARSER and _COARSER[type(rule)](rule, other))


def _bare(rule: AnyRule) -> AnyRule:
    """The rule without its reason, which says nothing of what is left."""
    if not isinstance(rule, rules.Justified):
        return rule
    return rule.model_copy(update={"reason": None, "owner": None, "expires": None})


def _coarser_unit(rule: rules.DateTruncate, other: rules.DateTruncate) -> bool:
    if rule.tz != other.tz or "week" in (rule.unit, other.unit):
        return False
    return _UNITS.index(rule.unit) >= _UNITS.index(other.unit)


def _coarser_place(rule: rules.Geo, other: rules.Geo) -> bool:
    return rule.geohash is not None and other.geohash is not None and rule.geohash <= other.geohash


def _shorter_prefix(rule: rules.MaskIp, other: rules.MaskIp) -> bool:
    return rule.v4_prefix <= other.v4_prefix and rule.v6_prefix <= other.v6_prefix


# The result of the first rule can be made of the result of the second, for every value.
_COARSER: Mapping[type[Any], Callable[[Any, Any], bool]] = {
    rules.Truncate: lambda rule, other: rule.length <= other.length,
    rules.Age: lambda rule, other: rule.cap <= other.cap,
    rules.DateTruncate: _coarser_unit,
    rules.Geo: _coarser_place,
    rules.MaskIp: _shorter_prefix,
}
