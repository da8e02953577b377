"""`mask`: every grapheme becomes a sign, but the first and the last few.

Invariant: if what is kept would cover all, nothing is kept. The number of graphemes shows; masking twice changes
nothing more.
"""

from aggregator.privacy.graphemes import graphemes
from aggregator.privacy.rules import Mask


def masked(rule: Mask, text: str) -> str:
    """A text behind its mask."""
    signs = graphemes(text)
    hidden = len(signs) - rule.keep_first - rule.keep_last
    if hidden <= 0:
        return rule.char * len(signs)
    return "".join([*signs[: rule.keep_first], rule.char * hidden, *signs[rule.keep_first + hidden :]])
