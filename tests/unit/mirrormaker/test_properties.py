"""Java's `.properties`: as `java.util.Properties.load` reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.mirrormaker.properties import PropertiesFault, Property, parse_properties
from tests.unit.mirrormaker.real_files import properties

READ = [
    ("a=b", [("a", "b", 1)]),
    ("a = b", [("a", "b", 1)]),
    ("a: b", [("a", "b", 1)]),
    ("a b", [("a", "b", 1)]),
    ("a\tb = c", [("a", "b = c", 1)]),
    ("a == b", [("a", "= b", 1)]),
    ("clusters A, B", [("clusters", "A, B", 1)]),
    ("a", [("a", "", 1)]),
    ("  a =  b  ", [("a", "b  ", 1)]),
    ("# c\n! d\n\n \t\n a=b", [("a", "b", 5)]),
    ("a=b # c", [("a", "b # c", 1)]),
    ("a=b\\\n   c\nd=e", [("a", "bc", 1), ("d", "e", 3)]),
    ("a=b\\\n# c\nd=e", [("a", "b# c", 1), ("d", "e", 3)]),
    ("a=b\\\\\nc=d", [("a", "b\\", 1), ("c", "d", 2)]),
    ("a=b\\", [("a", "b", 1)]),
    ("a\\=b\\:c\\ d=e", [("a=b:c d", "e", 1)]),
    ("a=\\t\\n\\r\\f\\-\\.", [("a", "\t\n\r\f-.", 1)]),
    ("a=\\u0041\\u00fc", [("a", "Aü", 1)]),
    ("a=\\ud83d\\ude00", [("a", "😀", 1)]),
    ("a=1\r\nb=2\rc=3", [("a", "1", 1), ("b", "2", 2), ("c", "3", 3)]),
    ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
    ("=x", [("", "x", 1)]),
    ("a->b.enabled=true", [("a->b.enabled", "true", 1)]),
    ("", []),
]


@pytest.mark.parametrize(("text", "found"), READ)
def test_a_file_is_read_as_java_reads_it(text, found):
    """Separators, comments, continued lines, escapes: from the class's own description."""
    assert parse_properties(text) == [Property(*one) for one in found]


@pytest.mark.parametrize(("text", "line"), [("a=1\nb=\\u00", 2), ("a=\\uzzzz", 1), ("a=\\ud83d", 1), ("\\ude00=1", 1)])
def test_what_java_refuses_is_refused_with_its_line(text, line):
    """Half an escape, and half a character."""
    with pytest.raises(PropertiesFault) as fault:
        parse_properties(text)
    assert fault.value.line == line


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(TEXT.filter(bool), TEXT), max_size=6))
def test_whatever_is_written_is_read_back(pairs):
    """Every key and every value, in order, whatever signs they hold."""
    assert [(one.key, one.value) for one in parse_properties(properties(pairs))] == pairs


@given(st.text(st.sampled_from(list("ab=: \\#!\n\r\t\fu0041")), max_size=40))
def test_any_text_is_read_or_refused(text):
    """No other error, and lines that rise."""
    try:
        found = parse_properties(text)
    except PropertiesFault:
        return
    assert [one.line for one in found] == sorted({one.line for one in found})
