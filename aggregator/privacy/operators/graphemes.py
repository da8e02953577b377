"""Splits text into graphemes: a reader sees a base with its marks, joined emoji, a flag, or a Hangul syllable as one.

This is an approximation of UAX #29 from `unicodedata`, without its tables of Indic conjuncts and prepended signs. In
case of doubt a grapheme is longer, so that a mask hides a whole sign where it hides a part.
Invariant: the first grapheme begins where the text begins, and each grapheme ends where the next one begins.
"""

import unicodedata
from array import array
from collections.abc import Sequence

_JOINER = "\u200d"
_MARKS = frozenset(("Mn", "Mc", "Me"))
_REGIONAL = range(0x1F1E6, 0x1F200)
_SKIN = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_PICTURES = (range(0x2190, 0x2400), range(0x2600, 0x27C0), range(0x2B00, 0x2C00), range(0x1F000, 0x20000))
_LEADING, _VOWELS, _TRAILING = range(0x1100, 0x1160), range(0x1160, 0x11A8), range(0x11A8, 0x1200)
_SYLLABLES = range(0xAC00, 0xD7A4)


def grapheme_starts(text: str, most: int | None = None) -> Sequence[int]:
    """Where each of what a reader sees as one sign begins.

    Args:
        text: Any text.
        most: No more of them than so many are looked for.
    """
    if text.isascii() and "\r" not in text:
        return range(len(text) if most is None else min(most, len(text)))
    starts = array("l")
    for place, sign in enumerate(text):
        if not starts or not _continues(text[starts[-1]], text[place - 1], place - starts[-1], sign):
            if len(starts) == most:
                break
            starts.append(place)
    return starts


def _continues(first: str, last: str, length: int, sign: str) -> bool:
    """Whether a sign goes on with the grapheme of so many signs before it."""
    code = ord(sign)
    if last == "\r":
        return sign == "\n"
    if unicodedata.category(last) == "Cc":
        return False
    if sign in (_JOINER, "\u200c") or code in _SKIN or code in _TAGS or unicodedata.category(sign) in _MARKS:
        return True
    if last == _JOINER:
        return any(code in part for part in _PICTURES)
    if code in _REGIONAL:  # two make a flag
        return length == 1 and ord(first) in _REGIONAL
    return _is_one_syllable(ord(last), code)


def _is_one_syllable(last: int, code: int) -> bool:
    """Hangul: leading consonants, vowels, trailing consonants."""
    if last in _LEADING:
        return code in _LEADING or code in _VOWELS or code in _SYLLABLES
    if last in _VOWELS or last in _SYLLABLES:
        return code in _VOWELS or code in _TRAILING
    return last in _TRAILING and code in _TRAILING
