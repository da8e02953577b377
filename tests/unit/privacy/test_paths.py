"""Paths and their matching."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.privacy.fields.paths import Matcher, join, steps


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("customer.email", ("customer", "email")),
        ("items[].sku", ("items", "[]", "sku")),
        ("grid[][]", ("grid", "[]", "[]")),
        ("attributes.{key}", ("attributes", "{key}")),
        ("attributes.{}", ("attributes", "{}")),
        ("attributes.{}[].x", ("attributes", "{}", "[]", "x")),
        ("**", ("**",)),
        ("a.*.b.**", ("a", "*", "b", "**")),
        ("[].x", ("[]", "x")),
    ],
)
def test_grammar(path, expected):
    """The documented forms; joining the steps gives the text again."""
    assert steps(path) == expected
    text = ""
    for step in expected:
        text = join(text, step)
    assert text == path


@pytest.mark.parametrize(
    "path", ["", ".", "a..b", "a b", "a[0]", "{keys}", "a.{key", "***", "a*", "a%b", "a[]b", "[]]["]
)
def test_everything_else_is_refused(path):
    """No path is read as something that it does not say."""
    with pytest.raises(ValueError, match="is no path"):
        steps(path)


_STEP = st.sampled_from(["a", "b", "[]", "{}", "{key}"])
_PATTERN_STEP = st.sampled_from(["a", "b", "[]", "*", "**", "{key}"])


@given(st.lists(_STEP, max_size=6), st.lists(st.lists(_PATTERN_STEP, max_size=5).map(tuple), max_size=4))
def test_matching_agrees_with_a_regular_expression(value, patterns):
    """The automaton of all patterns finds what each pattern finds alone."""
    matcher = Matcher((pattern, number) for number, pattern in enumerate(patterns))
    alive = matcher.start
    for step in value:
        alive = matcher.advance(alive, step)
    text = "".join(f"<{step}>" for step in value)
    parts = {"*": "<[^>]*>", "**": "(?:<[^>]*>)*"}
    expected = {
        number
        for number, pattern in enumerate(patterns)
        if re.fullmatch("".join(parts.get(step, re.escape(f"<{step}>")) for step in pattern), text)
    }
    assert matcher.matched(alive) == expected
