"""`mask_card`: the digits of a card number become signs, except the first and the last few; separators stay.

Invariant: a text that is not a card number, by length or check digit, has no result and is redacted as a whole.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.operators.checks import passes_luhn
from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.masks import SPACES, Sign, hidden, is_made_of, short
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.text import each, text_type

_MARKS = SPACES | frozenset("-.")
_DIGITS = range(12, 20)  # ISO/IEC 7812
# At least six of the twelve digits of the shortest card number stay hidden, and the check digit reveals one of them.
_SHOWN_DIGITS = 6


class MaskCard(Parameters):
    """Digits of a card number become signs, but the first (at most the issuer's six) and the last (at most four)."""

    operator: Literal["mask_card"] = "mask_card"
    char: Sign = "*"
    keep_first: Annotated[int, Field(ge=0, le=6)] = 0
    keep_last: Annotated[int, Field(ge=0, le=4)] = 4


def privacy_class(rule: MaskCard) -> PrivacyClass:
    """The privacy class: with few digits hidden the number can be found by trying."""
    shown = rule.keep_first + rule.keep_last
    return PrivacyClass.REVERSIBLE if shown > _SHOWN_DIGITS else PrivacyClass.IRREVERSIBLE


def mask_card(rule: MaskCard, text: str) -> str | None:
    """A card number with its first and last digits; None if it is none, by length or check digit."""
    text = short(text)
    digits = "".join(filter(str.isdecimal, text))
    if len(digits) not in _DIGITS or not passes_luhn(digits) or not is_made_of(text, str.isdecimal, _MARKS):
        return None
    return hidden(text, str.isdecimal, rule.char, rule.keep_first, rule.keep_last)


MASK_CARD = Descriptor(
    parameters=MaskCard,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=text_type,
    build=each(mask_card),
)
