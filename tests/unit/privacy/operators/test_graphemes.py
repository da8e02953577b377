"""What a reader sees as one sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.privacy.operators.grapheme_cut import graphemes

# After GraphemeBreakTest.txt of Unicode, for what the approximation covers.
SIGNS = ["a", "é", "e\u0301", "ñ\u0323\u0302", "🇩🇪",
         "👩\u200d👩\u200d👧", "👍🏽", "1\ufe0f\u20e3", "한", "\u1112\u1161\u11ab",
         "\r\n", "\n", "字", "🏴\U000e0067\U000e0062\U000e007f", "नि"]  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_one_sign_is_one(sign):
    """Marks, joined emoji, skin tones, flags, syllables and line ends are one sign each, alone and between others."""
    assert graphemes(sign) == [sign]
    assert graphemes(f"x{sign}x") == ["x", sign, "x"]


def test_flags_come_in_pairs():
    """Three regional signs are a flag and a half."""
    assert graphemes("🇩🇪🇫") == ["🇩🇪", "🇫"]


@given(st.text())
def test_nothing_gets_lost(text):
    """The graphemes of a text are the text, and none is empty."""
    assert "".join(graphemes(text)) == text
    assert all(graphemes(text))


def test_many_marks_take_linear_time():
    """A text of many marks is one sign, and soon told."""
    assert len(graphemes("a" + "\u0301" * 200_000)) == 1
