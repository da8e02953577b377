"""Decides which of two rules takes more of a value, as far as the rules alone prove it.

Invariants: the comparison is reflexive, and comparing B with A mirrors comparing A with B. A verdict without a proof is
`other`, never `same`. Parameters are ordered only if the coarser result follows from the finer one. A mask that may
show fewer signs can show *more* of a short value, because a mask that would show all signs shows none.
"""

from collections.abc import Iterable
from enum import StrEnum

from aggregator.privacy.operators.keep import Keep
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.registry import descriptor, place
from aggregator.privacy.policy.rules import AnyRule, privacy_class


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
    less, more = _at_most(after, before), _at_most(before, after)
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


def _at_most(rule: AnyRule, other: AnyRule) -> bool:
    """Whether it is proved that `rule` leaves no more than `other`."""
    classes = privacy_class(rule), privacy_class(other)
    if classes[0] != classes[1]:
        return classes[0] > classes[1]
    if isinstance(other, Keep):
        return True
    if descriptor(rule).is_constant:  # of two, `redact` leaves more: where nothing was, nothing stays, and it shows
        return not descriptor(other).is_constant or place(rule) <= place(other)
    if type(rule) is not type(other):
        return False
    rule, other = _bare(rule), _bare(other)
    return rule == other or descriptor(rule).is_coarser(rule, other)


def _bare(rule: AnyRule) -> AnyRule:
    """The rule without its reason, which says nothing of what is left."""
    if not isinstance(rule, Justified):
        return rule
    return rule.model_copy(update={"reason": None, "owner": None, "expires": None})
