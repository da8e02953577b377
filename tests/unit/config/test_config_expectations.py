"""A suite is data: types, arguments and conditions by allow-list, and nothing in them reaches Spark as code."""

import json
import re
from pathlib import Path

import pytest

from aggregator.config.expectations import ARGUMENTS, REFUSED
from aggregator.config.suites import SuiteFaults, load_suite

PAGE = Path(__file__).parents[3] / "docs" / "quality.md"
CANARY = "hunter2canary"
ENVIRONMENT = "reflect('java.lang.System', 'getenv', 'CUSTOMER_KEY')"
NOT_NULL = "expect_column_values_to_not_be_null"


@pytest.fixture
def said(tmp_path):
    """The faults of a suite with one expectation."""

    def read(kind, **kwargs):
        path = tmp_path / "suite.json"
        path.write_text(json.dumps({"name": "s", "expectations": [{"type": kind, "kwargs": kwargs}]}))
        try:
            load_suite(path, "hold")
        except SuiteFaults as error:
            return list(error.faults)
        return []

    return read


@pytest.mark.parametrize("kind", [*sorted(REFUSED), "expect_nothing", "", "os.system"])
def test_a_type_that_is_not_listed_is_refused(said, kind):
    """Those that run SQL or look elsewhere with the reason, all others because nobody knows them."""
    (fault,) = said(kind, column="id", unexpected_rows_query=f"select {ENVIRONMENT}")
    assert REFUSED.get(kind, "is none that the hub knows") in fault
    assert "select" not in fault


SQL = [
    "status = 'OLD'",
    f"{ENVIRONMENT} is not null",
    "1 = 1",
    'col("a") == 1 or col("b") == 2',
    f'col("a") == 1 and {ENVIRONMENT} is null',
    'col("a") == "x\' or 1=1 -- "',
    'col("a") == \'x" or 1=1 -- \'',
    'col("a") == "x\\" or 1=1"',
    'col("a`, java_method(1)) or (`b") == 1',
    'col("*") == 1',
    'col("a") == date(current_date())',
    'col("a") == col("b")',
    "col(a) == 1",
    'col("a")',
    'col("a").isnull()',
    'col("a") == 1 -- ',
    'col("a") == 1\n; drop table x',
    'col("a") == "line\nbreak"',
    "exists(select 1)",
]


@pytest.mark.parametrize(
    "parser", ["spark", "great_expectations", "great_expectations__experimental__", "pandas", None]
)
@pytest.mark.parametrize("condition", SQL)
def test_a_condition_in_sql_is_refused_under_every_parser(said, condition, parser):
    """What is no comparison of a column with a constant, from its first character to its last."""
    (fault,) = said(NOT_NULL, column="id", row_condition=condition, condition_parser=parser)
    assert "row_condition is one comparison" in fault
    assert condition not in fault


def compared(parameter, operator="==", name="a"):
    """An object of Great Expectations."""
    return {"type": "comparison", "column": {"name": name}, "operator": operator, "parameter": parameter}


OBJECTS = [
    {"type": "pass_through", "pass_through_filter": f"{ENVIRONMENT} is null"},
    {"type": "and", "conditions": [compared(1), {"type": "pass_through", "pass_through_filter": "1 = 1"}]},
    {"type": "or", "conditions": [{"type": "and", "conditions": [{"pass_through_filter": "1 = 1"}]}]},
    {"type": "and", "conditions": []},
    {"type": "or", "conditions": [compared(1)] * 101},
    compared("it's"),
    compared('x" or 1=1'),
    compared("back\\slash"),
    compared(["a", "b'"], "IN"),
    compared([], "IN"),
    compared("a", "IN"),
    compared({"a": 1}),
    compared([1]),
    compared(None),
    compared(float("inf")),
    compared(1, "= 1 or 1 ="),
    compared(1, name="a` = 1 or `b"),
    compared(1, name="a b"),
    compared(1) | {"sql": "1 = 1"},
    {**compared(1), "column": {"name": "a", "sql": "1 = 1"}},
    {"type": "nullity", "column": {"name": "a"}, "is_null": "1 = 1"},
    [compared(1)],
    7,
]


@pytest.mark.parametrize("condition", OBJECTS, ids=str)
def test_an_object_that_is_more_than_comparisons_is_refused(said, condition):
    """The library writes names and values into SQL; what passes filters through, or needs escapes, is not taken."""
    (fault,) = said(NOT_NULL, column="id", row_condition=condition)
    assert "row_condition is one comparison" in fault


@pytest.mark.parametrize(
    "condition",
    [
        'col("price") > 5',
        'col("price")<=-1.5e3',
        'col("payment.method") != "CARD AND MORE; 100% (sure)"',
        "col(\"status\") == 'NEW'",
        'col("id").notnull()',
        'col("booked") >= date("2026-01-01")',
        compared(5, ">="),
        compared(["a", "b"], "NOT_IN"),
        {"type": "nullity", "column": {"name": "line.sku"}, "is_null": False},
        {"type": "or", "conditions": [compared("x"), {"type": "and", "conditions": [compared(1), compared(True)]}]},
        "",
        None,
    ],
)
def test_the_librarys_own_conditions_are_taken(said, condition):
    """Written, or as objects."""
    parser = {"condition_parser": "great_expectations"} if isinstance(condition, str) else {}
    assert said(NOT_NULL, column="id", row_condition=condition, **parser) == []


@pytest.mark.parametrize(
    ("kind", "kwargs", "words"),
    [
        (NOT_NULL, {"column": "id", "result_format": "COMPLETE"}, "not result_format"),
        (NOT_NULL, {"column": "id", "batch_id": "x"}, "not batch_id"),
        (NOT_NULL, {"column": "id", f"{CANARY} '": 1}, "not what it is given"),
        (NOT_NULL, {"column": f"a`, {ENVIRONMENT}"}, "column is a column"),
        (NOT_NULL, {"column": ["id", 7]}, "column is a column"),
        (
            "expect_multicolumn_sum_to_equal",
            {"column_list": ["a", "b, 0) + (1"], "sum_total": 1},
            "column_list is a list",
        ),
        ("expect_multicolumn_sum_to_equal", {"column_list": ["*"], "sum_total": 1}, "column_list is a list"),
        ("expect_column_max_to_be_between", {"column": "a", "max_value": {"$PARAMETER": "now()"}}, "max_value is a"),
        ("expect_column_values_to_be_in_set", {"column": "a", "value_set": [{"$PARAMETER": "x"}]}, "value_set is a"),
        (
            "expect_column_values_to_be_in_set",
            {"column": "a", "value_set": "urn:great_expectations:stores:x"},
            "value_set is a constant",
        ),
    ],
)
def test_an_argument_that_is_not_data_is_refused(said, kind, kwargs, words):
    """Arguments that nobody lists, columns that are expressions, values that something would look up."""
    (fault,) = said(kind, **kwargs)
    assert words in fault
    assert CANARY not in fault


def test_paths_of_views_are_names(tmp_path):
    """They are columns, too."""
    path = tmp_path / "s.json"
    one = {"type": NOT_NULL, "kwargs": {"column": "a"}}
    for views in ({"a b": "lines"}, {"line": "explode(lines)"}, {"line": f"a`.{ENVIRONMENT}"}):
        path.write_text(json.dumps({"name": "s", "expectations": [one], "meta": {"aggregator": {"views": views}}}))
        with pytest.raises(SuiteFaults, match="names and paths of letters"):
            load_suite(path, "hold")


def test_the_documentation_shows_conditions_that_are_taken(said):
    """The object, and the comparisons in words."""
    text = PAGE.read_text(encoding="utf-8").partition("## A suite is data")[2].partition("\n## ")[0]
    (block,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert said(NOT_NULL, column="id", row_condition=json.loads(block)) == []
    written = set(re.findall(r"`(col\([^`]*)`", text))
    assert len(written) >= 3
    for one in written:
        assert said(NOT_NULL, column="id", row_condition=one, condition_parser="great_expectations") == []
    assert {kind for kind in REFUSED if kind in text} == {k for k, why in REFUSED.items() if "Spark" not in why}


def test_the_tables_are_apart():
    """A type is used or refused."""
    assert not ARGUMENTS.keys() & REFUSED.keys()
