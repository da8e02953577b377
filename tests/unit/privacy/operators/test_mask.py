"""`mask`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.unit.privacy.operators.grapheme_cut import graphemes
from tests.unit.privacy.operators.single import ENUM, LONG, one, rule


@pytest.mark.parametrize(
    ("parameters", "value", "masked"),
    [
        ({}, "Jane", "****"),
        ({}, "", ""),
        ({"keep_first": 1}, "Jane", "J***"),
        ({"keep_last": 2}, "Jane", "**ne"),
        ({"keep_first": 1, "keep_last": 1}, "Jane", "J**e"),
        ({"keep_first": 2, "keep_last": 2}, "Jane", "****"),
        ({"keep_first": 9}, "Jane", "****"),
        ({"char": "•", "keep_last": 1}, "Żo\u0301łć", "•••ć"),
        ({"keep_first": 1}, "👩\u200d👩\u200d👧🇩🇪x", "👩\u200d👩\u200d👧**"),
    ],
)
def test_what_is_kept(parameters, value, masked):
    """By grapheme; if what is kept would cover all, all is masked."""
    assert one(rule("mask", **parameters), value) == masked


def test_symbols_and_numbers_are_text():
    """An enum's symbol and a whole number are masked as they are written."""
    assert one(rule("mask", keep_first=1), "JANE", ENUM) == "J***"
    assert one(rule("mask", keep_last=2), -1234, LONG) == "***34"


@given(st.text(), st.integers(0, 3), st.integers(0, 3), st.sampled_from("*•█x0"))
def test_laws(text, first, last, char):
    """As many signs as before, only kept ones are the input's, and masking twice is masking once."""
    made = rule("mask", char=char, keep_first=first, keep_last=last)
    masked, signs = one(made, text), graphemes(text)
    assert one(made, masked) == masked
    hidden = len(signs) - first - last
    if hidden <= 0:
        assert masked == char * len(signs)
    else:
        assert masked == "".join(signs[:first]) + char * hidden + "".join(signs[first + hidden :])


@pytest.mark.parametrize("char", ["", "**", "\u0301", "\u200d", "\n", " ", "🇩", "🏽", "\ufe0f"])
def test_a_sign_is_one_visible_character(char):
    """What would join its neighbours, or show nothing, is refused."""
    with pytest.raises(ValidationError, match="one visible character"):
        rule("mask", char=char)
