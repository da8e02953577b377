"""`mask_phone`, `mask_card`, `mask_postcode`: letters and digits become signs, what separates them stays.

Invariant: a text that is not what the operator is for has no answer and is redacted as a whole; if what is kept would
cover all, nothing is kept.
"""

from collections.abc import Callable

from aggregator.budgets import NUMBER_SIGNS
from aggregator.privacy.operators.checks import passes_luhn
from aggregator.privacy.policy.rules import MaskCard, MaskPhone, MaskPostcode

_SPACES = frozenset(" \u00a0\u202f")
_PHONE_MARKS = _SPACES | frozenset("()-./\u2010\u2011\u2013")
_CARD_MARKS = _SPACES | frozenset("-.")
_POSTCODE_MARKS = _SPACES | frozenset("-")
_PHONE_DIGITS = range(7, 16)  # E.164 allows 15; fewer than 7 are not a subscriber of their own
_CARD_DIGITS = range(12, 20)  # ISO/IEC 7812
_POSTCODE_SIGNS = range(3, 11)


def masked_phone(rule: MaskPhone, text: str) -> str | None:
    """A phone number with its last digits; None if it is none."""
    text = _short(text)
    rest = text[1:] if text[:1] in ("+", "\uff0b") else text
    digits = [sign for sign in rest if sign.isdecimal()]
    if len(digits) not in _PHONE_DIGITS or not _is_made_of(rest, str.isdecimal, _PHONE_MARKS):
        return None
    return _hidden(text, str.isdecimal, rule.char, 0, rule.keep_last)


def masked_card(rule: MaskCard, text: str) -> str | None:
    """A card number with its first and last digits; None if it is none, by length or check digit."""
    text = _short(text)
    digits = "".join(filter(str.isdecimal, text))
    if len(digits) not in _CARD_DIGITS or not passes_luhn(digits) or not _is_made_of(text, str.isdecimal, _CARD_MARKS):
        return None
    return _hidden(text, str.isdecimal, rule.char, rule.keep_first, rule.keep_last)


def masked_postcode(rule: MaskPostcode, text: str) -> str | None:
    """A postcode with its first letters and digits; None if it is none."""
    text = _short(text)
    signs = [sign for sign in text if sign.isalnum()]
    is_code = len(signs) in _POSTCODE_SIGNS and any(sign.isdecimal() for sign in signs)
    if not is_code or not _is_made_of(text, str.isalnum, _POSTCODE_MARKS):
        return None
    return _hidden(text, str.isalnum, rule.char, rule.keep_first, 0)


def _short(text: str) -> str:
    """The text without what surrounds it; nothing, which is no number, where it is longer than any number."""
    text = text.strip()
    return text if len(text) <= NUMBER_SIGNS.limit else ""


def _is_made_of(text: str, counts: Callable[[str], bool], marks: frozenset[str]) -> bool:
    return all(counts(sign) or sign in marks for sign in text)


def _hidden(text: str, counts: Callable[[str], bool], char: str, first: int, last: int) -> str:
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
