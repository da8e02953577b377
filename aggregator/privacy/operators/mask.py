"""`mask`: every grapheme becomes a sign, but the first and the last few.

Invariant: if what is kept would cover all, nothing is kept. The number of graphemes shows; masking twice changes
nothing more.
"""

from aggregator.privacy.graphemes import grapheme_starts
from aggregator.privacy.policy.rules import Mask


def masked(rule: Mask, text: str) -> str:
    """A text behind its mask."""
    starts = grapheme_starts(text)
    hidden = len(starts) - rule.keep_first - rule.keep_last
    if hidden <= 0:
        return rule.char * len(starts)
    behind = text[starts[-rule.keep_last] :] if rule.keep_last else ""
    return text[: starts[rule.keep_first]] + rule.char * hidden + behind
