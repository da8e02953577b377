"""`mask_postcode`: letters and digits become signs, except the first few, which name a district; separators stay.

Invariant: a text that is not a postcode has no result and is redacted as a whole.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.masks import SPACES, Sign, hidden, is_made_of, short
from aggregator.privacy.operators.parameters import Parameters
from aggregator.privacy.operators.text import each, text_type

_MARKS = SPACES | frozenset("-")
_SIGNS = range(3, 11)


class MaskPostcode(Parameters):
    """Letters and digits become signs but the first few, which name a district; what separates them stays."""

    operator: Literal["mask_postcode"] = "mask_postcode"
    char: Sign = "*"
    keep_first: Annotated[int, Field(ge=0, le=4)] = 2


def mask_postcode(rule: MaskPostcode, text: str) -> str | None:
    """A postcode with its first letters and digits; None if it is none."""
    text = short(text)
    signs = [sign for sign in text if sign.isalnum()]
    is_code = len(signs) in _SIGNS and any(sign.isdecimal() for sign in signs)
    if not is_code or not is_made_of(text, str.isalnum, _MARKS):
        return None
    return hidden(text, str.isalnum, rule.char, rule.keep_first, 0)


MASK_POSTCODE = Descriptor(
    parameters=MaskPostcode,
    strongest=PrivacyClass.IRREVERSIBLE,
    result=text_type,
    build=each(mask_postcode),
)
