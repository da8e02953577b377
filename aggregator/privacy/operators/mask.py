"""`mask`: every grapheme becomes a sign, except the first and the last few.

Invariant: if the kept graphemes would be all of them, none is kept. The number of graphemes stays visible. Masking
twice changes nothing more.
"""

from typing import Annotated, Literal

from pydantic import Field

from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass, clear_if
from aggregator.privacy.operators.graphemes import grapheme_starts
from aggregator.privacy.operators.masks import Sign
from aggregator.privacy.operators.parameters import Justified
from aggregator.privacy.operators.text import each, text_type

Count = Annotated[int, Field(ge=0, le=1000)]
# More visible graphemes than this would reveal short values; of a name of five graphemes, four already show.
_SHOWN_GRAPHEMES = 4


class Mask(Justified):
    """All graphemes become `char` but the first and the last few; if those would be all, none is left."""

    operator: Literal["mask"] = "mask"
    char: Sign = "*"
    keep_first: Count = 0
    keep_last: Count = 0


def privacy_class(rule: Mask) -> PrivacyClass:
    """The privacy class: many graphemes of a short value leave it in clear."""
    return clear_if(rule.keep_first + rule.keep_last > _SHOWN_GRAPHEMES)


def mask_text(rule: Mask, text: str) -> str:
    """Replace the graphemes of a text but the first and the last few; if those would be all, replace every one."""
    starts = grapheme_starts(text)
    hidden = len(starts) - rule.keep_first - rule.keep_last
    if hidden <= 0:
        return rule.char * len(starts)
    behind = text[starts[-rule.keep_last] :] if rule.keep_last else ""
    return text[: starts[rule.keep_first]] + rule.char * hidden + behind


MASK = Descriptor(
    parameters=Mask,
    strongest=PrivacyClass.IRREVERSIBLE,
    privacy_class=privacy_class,
    result=text_type,
    build=each(mask_text),
)
