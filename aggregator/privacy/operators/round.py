"""`round`: a number keeps fewer digits, and its type stays.

Invariant: a type that the operator cannot change (whole numbers where decimals are asked for) is not accepted. Rounding
twice changes nothing more.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.fields.leaf import Leaf
from aggregator.privacy.operators import number
from aggregator.privacy.operators.descriptor import Descriptor, Operator, PrivacyClass
from aggregator.privacy.operators.parameters import Justified


class Round(Justified):
    """A number keeps so many decimals; a negative number of them rounds before the point. Half to even."""

    operator: Literal["round"] = "round"
    digits: Annotated[int, Field(ge=-18, le=15)]


def privacy_class(rule: Round) -> PrivacyClass:
    """Most long numbers stay distinct after rounding to digits, and whole numbers pass unchanged."""
    return PrivacyClass.CLEAR if rule.digits >= 0 else PrivacyClass.PSEUDONYMOUS


def result(rule: Round, leaf: Leaf) -> Leaf | None:
    """The type of the leaf; None where rounding changes none of its values."""
    return number.rounded_type(leaf, rule.digits)


def build(rule: Round, leaf: Leaf, *_: object) -> Operator:
    """Build the operator that rounds numbers."""
    return number.rounding(leaf, rule.digits)


ROUND = Descriptor(
    parameters=Round, strongest=PrivacyClass.PSEUDONYMOUS, privacy_class=privacy_class, result=result, build=build
)
