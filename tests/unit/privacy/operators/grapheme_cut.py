"""A text cut into its graphemes."""

from itertools import pairwise

from aggregator.privacy.operators.graphemes import grapheme_starts


def graphemes(text):
    """The signs of a text."""
    return [text[start:end] for start, end in pairwise([*grapheme_starts(text), len(text)])]
