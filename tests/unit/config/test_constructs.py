"""Java's regular expressions in topic patterns: what RE2 does not have, or reads otherwise, has a name."""

import pytest

from aggregator.config.constructs import is_list, unsupported_syntax
from aggregator.config.fields import group_pattern, topic_pattern
from aggregator.config.patterns import full_matches


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("[a-z&&[^b]]+", "an intersection of classes"),
        ("[a-z&&[^b]]", "an intersection of classes"),
        ("[a-d[m-p]]", "a class within a class"),
        ("(?!foo).*", "a look-ahead"),
        ("x(?=a)", "a look-ahead"),
        (".*(?<!x)", "a look-behind"),
        ("(?<=x)a", "a look-behind"),
        ("(?>a)", "an atomic group"),
        ("a++", "a possessive quantifier"),
        ("a{2,3}+", "a possessive quantifier"),
        (r"(a)\1", "a back-reference"),
        (r"(?<n>a)\k<n>", "a back-reference"),
    ],
)
def test_a_construct_of_java_is_refused_by_its_name(pattern, said):
    """RE2 takes the first three without a word, and means something else."""
    assert said in unsupported_syntax(pattern)
    with pytest.raises(ValueError, match=r"holds an? ") as refused:
        topic_pattern(pattern)
    assert said in str(refused.value)
    assert pattern not in str(refused.value)


@pytest.mark.parametrize(
    "pattern",
    [
        "orders|pay",
        r"a\[b",
        "[]a]",
        "[^]a]",
        "[[:alpha:]]+",
        r"[\[&]",
        r"\Q(?=[a&&b]\E",
        "(?i)a",
        "(?:a+)+",
        "a{1,3}",
        "[,]",
    ],
)
def test_what_re2_reads_as_java_does_is_none(pattern):
    """Escaped and quoted signs, classes of names, flags."""
    assert unsupported_syntax(pattern) == ""
    assert not is_list(pattern)


@pytest.mark.parametrize("check", [topic_pattern, group_pattern, lambda one: full_matches(one, ["orders"])])
@pytest.mark.parametrize("pattern", [r"orders\Q", r"\Qorders", r"a|\Qb\Q", r"a\Qb\E\Q", "\\Q\\"])
def test_a_quote_without_an_end_is_refused_by_its_name(check, pattern):
    r"""Alone RE2 takes it. It would quote what is written behind it, such as the next alternative of a list."""
    with pytest.raises(ValueError, match=r"begins a quote with `\\Q` that no `\\E` ends") as refused:
        check(pattern)
    assert "orders" not in str(refused.value)


@pytest.mark.parametrize("pattern", [r"\Qa.b\E", r"\Q\E", r"\Qa\E|\Qb\E", r"\\Q", r"\Qa\\E"])
def test_a_quote_with_its_end_is_a_pattern(pattern):
    """As is a backslash that is matched, before a letter."""
    assert topic_pattern(pattern) == pattern


@pytest.mark.parametrize("pattern", ["orders, payments", "orders,payments", "a b", "a{1,2},b"])
def test_a_list_as_one_pattern_is_told(pattern):
    """MirrorMaker takes several patterns with commas between them; here no topic would ever match."""
    with pytest.raises(ValueError, match=r"comma or a space.*`orders\|payments`"):
        topic_pattern(pattern)
