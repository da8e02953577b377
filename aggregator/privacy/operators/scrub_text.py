"""`scrub_text`: every find of a detector in free text becomes the detector's name in brackets.

Invariant: detectors work one after the other in a fixed order, the most specific first, so that a card number is not
reported as a phone number. Each detector looks at the text without its escapes, and then at the text as it is written.
Data that no detector finds stays: names, for example. Scrubbed text is still personal data.
"""

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from aggregator.privacy.operators import detectors
from aggregator.privacy.operators.descriptor import Descriptor, PrivacyClass
from aggregator.privacy.operators.detectors import Span
from aggregator.privacy.operators.parameters import Justified, each_once
from aggregator.privacy.operators.text import each, word_type
from aggregator.privacy.operators.unescaped import Unescaped

Detector = Literal["email", "phone", "card", "iban", "ip", "jwt"]
ALL_DETECTORS: tuple[Detector, ...] = ("card", "email", "iban", "ip", "jwt", "phone")
_DETECTORS: dict[str, Callable[[str], Iterable[Span]]] = {
    "jwt": detectors.jwts,
    "email": detectors.emails,
    "ip": detectors.ips,
    "iban": detectors.ibans,
    "card": detectors.cards,
    "phone": detectors.phones,
}


class ScrubText(Justified):
    """What the detectors find in a text becomes its name in brackets; what they do not find stays. Escapes of URLs,
    HTML and JSON hide nothing. The time of a log line (`2026-11-25 10:00:01`) is no phone number; a date alone, a
    coordinate or a part of a hash may be taken for one. An IBAN that touches a word, and circled digits, stay.
    """

    operator: Literal["scrub_text"] = "scrub_text"
    detectors: Annotated[tuple[Detector, ...], Field(min_length=1), AfterValidator(each_once)] = ALL_DETECTORS


def scrubbed(rule: ScrubText, text: str) -> str:
    """A text in which what the detectors found is replaced."""
    plain = Unescaped(text)
    for name, detect in _DETECTORS.items():
        if name in rule.detectors:
            mark = f"[{name.upper()}]"
            if plain.is_other:  # first: digits of an escape may belong to no number
                found = (plain.written(*span) for span in detect(plain.text))
                text, plain = _marked(text, plain, found, mark)
            text, plain = _marked(text, plain, detect(text), mark)
    return text


def _marked(text: str, plain: Unescaped, spans: Iterable[Span], mark: str) -> tuple[str, Unescaped]:
    """A text without what was found, and the same without its escapes; where none were, marks bring none."""
    left = _without(text, spans, mark)
    return left, Unescaped(left) if plain.is_other and left != text else plain


def _without(text: str, spans: Iterable[Span], mark: str) -> str:
    at, out = 0, []
    for start, end in spans:
        out += [text[at:start], mark]
        at = end
    return "".join([*out, text[at:]])


SCRUB_TEXT = Descriptor(
    parameters=ScrubText,
    strongest=PrivacyClass.CLEAR,
    result=word_type,
    build=each(scrubbed),
    is_cacheable=False,
)
