"""`mask_phone`: the digits of a phone number become signs, except the last few; separators stay.

Invariant: a text that is not a phone number has no result and is redacted as a whole.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.masks import SPACES, Sign, hidden, is_made_of, short
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.text import each, text_type

_MARKS = SPACES | frozenset("()-./\u2010\u2011\u2013")
_DIGITS = range(7, 16)  # E.164 allows 15; fewer than 7 are not a subscriber of their own


class MaskPhone(Parameters):
    """Digits become signs, but the last few; what separates them stays."""

    operator: Literal["mask_phone"] = "mask_phone"
    char: Sign = "*"
    keep_last: Annotated[int, Field(ge=0, le=4)] = 2


def mask_phone(rule: MaskPhone, text: str) -> str | None:
    """A phone number with its last digits; None if it is none."""
    text = short(text)
    rest = text[1:] if text[:1] in ("+", "\uff0b") else text
    digits = [sign for sign in rest if sign.isdecimal()]
    if len(digits) not in _DIGITS or not is_made_of(rest, str.isdecimal, _MARKS):
        return None
    return hidden(text, str.isdecimal, rule.char, 0, rule.keep_last)


MASK_PHONE = Descriptor(
    parameters=MaskPhone,
    strongest=PrivacyClass.IRREVERSIBLE,
    result=text_type,
    build=each(mask_phone),
)
