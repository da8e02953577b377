"""`regex_replace` and `lookup`."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.growth import grows_linearly
from tests.unit.privacy.operators.single import ENUM, LONG, one, operator, rule


@pytest.mark.parametrize(
    ("pattern", "replacement", "value", "made"),
    [
        ("[0-9]", "#", "a1b2", "a#b#"),
        (r"^(\w+) (\w+)$", r"\2, \1", "Jane Doe", "Doe, Jane"),
        (r"(\d{2})\d+", r"\1…", "12345 x 678", "12… x 67…"),
        (r"\p{Lu}", "X", "Żółć", "Xółć"),
        ("x", "y", "Jane", "[REDACTED]"),
        ("^$", "empty", "", "empty"),
    ],
)
def test_patterns(pattern, replacement, value, made):
    """Every match is replaced, groups by number; a text without a match is redacted."""
    assert one(rule("regex_replace", pattern=pattern, replacement=replacement), value) == made


def test_many_at_once():
    """Values of one batch do not meet."""
    made = operator(rule("regex_replace", pattern="^a", replacement="b"))
    assert made(["a", "", "xa", "aa"]) == ["b", "[REDACTED]", "[REDACTED]", "ba"]
    assert made([]) == []
    assert operator(rule("regex_replace", pattern="^a", replacement=""))(["a"]) == [""]


def test_a_pattern_searches_no_text_without_end():
    """With some alternatives time grows with the square of a text, so a long one is redacted, among others."""
    made = operator(rule("regex_replace", pattern="(a*)*b|(.*)(.*)(.*)x", replacement="-"))
    assert made(["ab", "é" * 32_769, "b" * 65_536, "b" * 65_537]) == ["-", "[REDACTED]", "-" * 65_536, "[REDACTED]"]
    hostile = "eyJhbGciOi." * 18_182
    began = time.process_time()
    assert made([hostile] * 4) == ["[REDACTED]"] * 4
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [("(sesame", ""), ("(?=sesame)", ""), (r"(a)\1", ""), ("(a)", r"sesame\2"), ("a", "\\x"), ("", "")],
)  # fmt: skip
def test_what_re2_refuses_is_refused_at_once(pattern, replacement):
    """When the policy is read, and without a word of it."""
    with pytest.raises(ValidationError) as caught:
        rule("regex_replace", pattern=pattern, replacement=replacement)
    assert "sesame" not in str(caught.value)


def test_patterns_take_linear_time():
    """A pattern that takes Python's `re` for ever."""
    hostile = rule("regex_replace", pattern="^(a+)+$", replacement="")
    assert one(hostile, "a" * 100 + "b") == "[REDACTED]"
    assert grows_linearly(lambda signs: one(hostile, "a" * signs + "b"), 25_000)


@given(st.text())
def test_no_match_is_never_the_input(text):
    """Whatever the text: a pattern that matches nothing leaves nothing."""
    assert one(rule("regex_replace", pattern=r"[^\x00-\x{10FFFF}]", replacement=""), text) == "[REDACTED]"


@pytest.mark.parametrize(
    ("leaf", "value", "made"),
    [(ENUM, "JANE", "f"), (LONG, 42, "answer"), (LONG, 43, "[REDACTED]"), (ENUM, "JOE", "[REDACTED]")],
)
def test_tables(leaf, value, made):
    """What the table has, for texts, symbols and whole numbers; the rest is redacted."""
    assert one(rule("lookup", table={"JANE": "f", 42: "answer"}), value, leaf) == made


def test_the_order_of_a_table_does_not_matter():
    """Two tables of the same entries are one rule."""
    assert rule("lookup", table={"a": "1", "b": "2"}) == rule("lookup", table={"b": "2", "a": "1"})
    assert hash(rule("lookup", table={"a": "1"})) == hash(rule("lookup", table={"a": "1"}))


@pytest.mark.parametrize("table", [{}, {1: "a", "1": "b"}, {"a": None}, {None: "a"}, {True: "a"}, "a", None])
def test_what_is_no_table_is_refused(table):
    """Texts or whole numbers to texts, at least one, each once."""
    with pytest.raises(ValidationError):
        rule("lookup", table=table)
