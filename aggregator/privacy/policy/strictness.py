"""Decides which of two rules takes more of a value, as far as the rules alone prove it.

Invariants: the comparison is reflexive, and comparing B with A mirrors comparing A with B. A verdict without a proof is
`other`, never `same`. `stricter` means: no two values that were alike before differ after, and none shows in clear that
did not. A higher class proves nothing of two operators, because each may keep what the other one takes: a token hides
the value and tells all values apart, a mask shows a part. So does no operator with other parameters, unless its result
follows from the former one: a mask that would show all signs shows none, so that showing fewer can show *more*.
"""

from collections.abc import Iterable
from enum import StrEnum

from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.registry import descriptor, place
from aggregator.privacy.policy.rules import AnyRule, bare, other_field, privacy_class


class Strictness(StrEnum):
    """The verdict on one place of a policy: how strict the new rule is, compared with the old one."""

    SAME = "same"
    STRICTER = "stricter"
    LOOSER = "looser"
    OTHER = "other"

    @property
    def loosens(self) -> bool:
        """Whether somebody has to agree: more is left of a value, or it is not proved that there is not."""
        return self in (Strictness.LOOSER, Strictness.OTHER)


def compare_rules(before: AnyRule, after: AnyRule) -> Strictness:
    """Compare what `after` leaves of a value with what `before` leaves of it."""
    return verdict(_at_most(after, before), _at_most(before, after))


def verdict(less: bool, more: bool) -> Strictness:
    """The verdict where it is proved, or not, that at most as much is left as before, and that at least as much is."""
    if less and more:
        return Strictness.SAME
    if less:
        return Strictness.STRICTER
    return Strictness.LOOSER if more else Strictness.OTHER


def combine_verdicts(verdicts: Iterable[Strictness]) -> Strictness:
    """Combine the verdicts over several days or several meanings of one place."""
    found = set(verdicts) - {Strictness.SAME}
    if not found:
        return Strictness.SAME
    return found.pop() if len(found) == 1 else Strictness.OTHER


def is_same_rule(one: AnyRule, other: AnyRule) -> bool:
    """Whether two rules leave the same of every value, whatever the reasons are that they give."""
    return bare(one) == bare(other)


def closes_at_most(rule: AnyRule, other: AnyRule) -> bool:
    """Whether both make constants of all values of all types, and `rule` leaves no more than `other`.

    Of two constants `redact` leaves more: it shows where a value was.
    """
    are_constant = descriptor(rule).is_constant and descriptor(other).is_constant
    return are_constant and place(rule) <= place(other)


def _at_most(rule: AnyRule, other: AnyRule) -> bool:
    """Whether it is proved that `rule` leaves no more than `other`."""
    if is_same_rule(rule, other) or closes_at_most(rule, other):
        return True
    if isinstance(other, Keep):
        return not other_field(rule)  # what looks at another field tells of that one
    if descriptor(rule).is_constant:
        return not descriptor(other).is_constant
    if type(rule) is not type(other) or privacy_class(rule) < privacy_class(other):
        return False
    return descriptor(rule).is_coarser(rule, other)
