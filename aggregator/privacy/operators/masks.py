"""Common code of the masks: the sign that they show, and numbers of which some signs are hidden.

Invariant: if the kept signs would be all of them, none is kept.
"""

import unicodedata
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator

from aggregator.budgets import NUMBER_SIGNS
from aggregator.privacy.operators.graphemes import grapheme_starts

# A masked part of an address has this number of signs, whatever its length.
COVER_SIGNS = 3
SPACES = frozenset(" \u00a0\u202f")


def _sign(value: str) -> str:
    """A sign that stays one grapheme beside any other: otherwise a mask of a mask would hide more."""
    is_visible = len(value) == 1 and unicodedata.category(value)[0] in "LNPS"
    if not is_visible or len(grapheme_starts(f"a{value}{value}a")) != 4:  # noqa: PLR2004 - the four
        raise ValueError("`char` is one visible character")
    return value


Sign = Annotated[str, AfterValidator(_sign)]


def short(text: str) -> str:
    """The text without what surrounds it; nothing, which is no number, where it is longer than any number."""
    text = text.strip()
    return text if len(text) <= NUMBER_SIGNS.limit else ""


def is_made_of(text: str, counts: Callable[[str], bool], marks: frozenset[str]) -> bool:
    """Whether every sign counts, or is one of the marks that may stand between those that do."""
    return all(counts(sign) or sign in marks for sign in text)


def hidden(text: str, counts: Callable[[str], bool], char: str, first: int, last: int) -> str:
    """Signs that count become `char`, but the first and the last of them."""
    total = sum(map(counts, text))
    if first + last >= total:
        first = last = 0
    seen, out = 0, []
    for sign in text:
        if counts(sign):
            seen += 1
            sign = sign if seen <= first or seen > total - last else char  # noqa: PLW2901 - the sign as it is shown
        out.append(sign)
    return "".join(out)
