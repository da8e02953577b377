"""The allow-list beside the library that is installed: every type is decided, every argument exists."""

import importlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.config.expectations import ARGUMENTS, REFUSED, faults
from aggregator.config.suites import Rule
from aggregator.lake.quality import validation

pytestmark = pytest.mark.slow

OUTSIDE = {"id", "meta", "notes", "description", "severity", "rendered_content", "windows", "batch_id"}


@pytest.fixture(scope="module")
def library():
    """Imported as the gate imports it, which silences what it warns of."""
    validation._library()
    return importlib.import_module("great_expectations.expectations.registry")


def test_every_expectation_of_the_library_is_allowed_or_refused_by_name(library):
    """A new version's new type has to be looked at; an argument of the table is one of the library."""
    known = set(library.list_registered_expectation_implementations())
    assert known - ARGUMENTS.keys() == REFUSED.keys()
    assert ARGUMENTS.keys() <= known
    for kind, names in ARGUMENTS.items():
        fields = library.get_expectation_impl(kind).__fields__.keys()
        assert names <= fields - OUTSIDE, kind


_TOKENS = ['col("a")', 'col("a.b")', "==", ">", "<=", "!=", "1", "-2.5", '"x"', "'y z'", ".notnull()", 'date("2026")']
_HOSTILE = [" or ", "--", ";", "(", ")", "`", '"', "'", "\\", "col(", "1=1", "reflect(", "\n"]


@pytest.mark.usefixtures("library")
@given(st.lists(st.sampled_from(_TOKENS + _HOSTILE), max_size=6).map(" ".join))
def test_what_we_take_the_librarys_grammar_takes_to_the_end(text):
    """No condition is read by it only in part, and none that it cannot read is taken."""
    kwargs = {"column": "a", "row_condition": text, "condition_parser": "great_expectations"}
    if text.strip() and not list(faults("expect_column_values_to_not_be_null", kwargs)):
        module = importlib.import_module("great_expectations.expectations.legacy_row_conditions")
        module.condition.parse_string(text.strip(), parse_all=True)


@pytest.mark.parametrize("value", [1, -1.5, True, "x", "żółć", "a;b", "100%", "${x}", "{}", "--", "/*", "$(x)", "`"])
def test_a_constant_of_an_object_is_the_same_constant_in_sql(value):
    """The library writes it with Python's `repr`, which Spark reads alike for all that is taken."""
    condition = {"type": "comparison", "column": {"name": "a"}, "operator": "==", "parameter": value}
    kwargs = {"column": "a", "row_condition": condition}
    assert list(faults("expect_column_values_to_not_be_null", kwargs)) == []
    if isinstance(value, str):
        assert repr(value) == f"'{value}'" or not value.isprintable()
    validation.check("t", [Rule("s/a", "expect_column_values_to_not_be_null", json.loads(json.dumps(kwargs)), "hold")])
