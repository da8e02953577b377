"""`scrub_text`: what the detectors find in free text becomes its name in brackets.

Invariant: detectors work one after the other in a fixed order, the most specific first, so that a card number is not
told as a phone number. What no detector finds stays: names, for example. Scrubbed text is still personal data.
"""

from collections.abc import Callable, Iterable

from aggregator.privacy.operators import detectors
from aggregator.privacy.operators.detectors import Span
from aggregator.privacy.policy.rules import ScrubText

_DETECTORS: dict[str, Callable[[str], Iterable[Span]]] = {
    "jwt": detectors.jwts,
    "email": detectors.emails,
    "ip": detectors.ips,
    "iban": detectors.ibans,
    "card": detectors.cards,
    "phone": detectors.phones,
}


def scrubbed(rule: ScrubText, text: str) -> str:
    """A text without what was found in it."""
    for name, detect in _DETECTORS.items():
        if name in rule.detectors:
            text = _without(text, detect(text), f"[{name.upper()}]")
    return text


def _without(text: str, spans: Iterable[Span], mark: str) -> str:
    at, out = 0, []
    for start, end in spans:
        out += [text[at:start], mark]
        at = end
    return "".join([*out, text[at:]])
