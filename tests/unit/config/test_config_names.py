"""The names that a pattern matches: listed where they can be, and never one too few."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.patterns import PatternBranch, full_matches, names


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("orders", "orders"),
        ("flights|bookings", "flights bookings"),
        (r"orders|payments-(eu|us)|log\..*", "orders payments-eu payments-us log.*"),
        ("(a|b)c?", "a ac b bc"),
        ("(?:a|b)(c|d)", "ac ad bc bd"),
        ("^orders$", "orders"),
        ("orders-[0-9]+|x", "orders-* x"),
        (r"orders\d+", "orders*"),
        ("a+b|c", "a* c"),
        ("pay.*|payments|pays.*", "pay*"),
        (".*", "*"),
        ("a{2}|b", "*"),
        ("a{x|b", "a{x b"),
        ("ab{c|d}e", "ab{c d}e"),
        ("(a{,2|b)c|d}", "a{,2c bc d}"),
        ("a{1|b|c}", "a{1 b c}"),
        ("a{1,2}?b|c", "*"),
        ("a]|b", "a] b"),
        ("(?i)orders", "*"),
        (r"\Qa|b\E", "*"),
        ("(" * 3 + "a" + ")" * 3, "a"),
    ],
)
def test_names_are_listed_or_begin(pattern, expected):
    """A star stands for a beginning."""
    found = [one.literal + ("" if one.is_literal else "*") for one in names(pattern)]
    assert found == expected.split()


_LETTERS = st.sampled_from([*"ab.", r"\.", "-", "[ab]", r"\d", "[^a]", "(a|b)", "(?:a|)", "^", "$", "{", "}", "]"])
_REPEAT = st.sampled_from(["", "", "", "?", "*", "+", "{2}", "{1,2}", "{1,}", "{,2}", "{1", "*?", "??", "{2}?"])
_SEQUENCES = st.lists(st.tuples(_LETTERS, _REPEAT).map("".join), max_size=4).map("".join)
_PATTERNS = st.lists(_SEQUENCES | _SEQUENCES.map(lambda inner: f"({inner})"), min_size=1, max_size=3).map("|".join)


@given(_PATTERNS, st.lists(st.text("ab.-1", max_size=5) | st.text("ab{1,2}]", max_size=6), max_size=20))
def test_no_name_that_matches_is_left_out(pattern, drawn):
    """What RE2 takes is a listed name, or begins as one that could not be listed."""
    try:
        taken = full_matches(pattern, drawn)
    except ValueError:
        return  # RE2 refuses the pattern
    listed = names(pattern)
    for name, is_taken in zip(drawn, taken, strict=True):
        if is_taken and name:
            assert PatternBranch(name, is_literal=True) in listed or any(
                name.startswith(one.literal) for one in listed if not one.is_literal
            )


@given(st.text("ab(|)[]{}?*+\\^$.,1dQE", max_size=12))
def test_any_text_ends(pattern):
    """Also one that is no pattern."""
    assert len(names(pattern)) <= 1001


def test_a_pattern_of_very_many_names_is_a_beginning():
    """2 to the 40 names are not listed."""
    assert names("x" + "(a|b)" * 40) == (PatternBranch("", is_literal=False),)


def test_a_pattern_of_very_many_groups_within_groups_is_any_name():
    """RE2 takes a thousand."""
    assert names("(" * 900 + "a" + ")" * 900) == (PatternBranch("", is_literal=False),)
