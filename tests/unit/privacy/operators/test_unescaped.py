"""Escapes in free text, undone, and the places of what is found there."""

import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.operators.unescaped import UNSEEN, Unescaped

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="%&\\").filter(
        lambda c: not ("\uff01" <= c <= "\uff5e" or re.match(UNSEEN, c))
    )
)


def of_url(text: str) -> str:
    return quote(text, safe="")


def of_url_twice(text: str) -> str:
    return quote(quote(text, safe=""), safe="")


def of_json(text: str) -> str:
    units = text.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


@pytest.mark.parametrize("escaped", [of_url, of_url_twice, of_json])
@given(text=TEXTS)
def test_whatever_is_escaped_is_undone(escaped, text):
    """No sign of several bytes is parted, wherever it stands in a row of escapes."""
    assert Unescaped(escaped(text)).text == text


@given(before=st.text("ab ", max_size=20), found=st.text("12é😀", min_size=1, max_size=20))
def test_what_is_found_is_taken_where_it_was_written(before, found):
    """Whole escapes, and nothing of what stands around them."""
    written = before + of_url(found) + before
    start, end = Unescaped(written).written(len(before), len(before) + len(found))
    assert written[:start] == before
    assert written[end:] == before


@given(st.text("ab", max_size=5), st.lists(st.sampled_from(["1", "\u200b", "\ufe0f", "%32", "&shy;"]), min_size=1))
def test_unseen_signs_are_gone_and_taken_with_what_they_part(before, signs):
    """Nothing that stands before or behind what was found is taken with it."""
    written = f"{before}7{''.join(signs)}7{before}"
    undone = Unescaped(written)
    assert re.search(UNSEEN, undone.text) is None
    start, end = undone.written(len(before), len(undone.text) - len(before))
    assert (written[:start], written[end:]) == (before, before)
