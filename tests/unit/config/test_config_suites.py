"""What a suite may not say is told with the rest of the configuration's faults."""

import json
from pathlib import Path

import pytest

from aggregator.config.suites import DIVERTIBLE, SuiteFaults, load_suite

KNOWN = {"type": "expect_column_values_to_not_be_null", "kwargs": {"column": "id"}}
NULL = {"type": "nullity", "column": {"name": "x"}, "is_null": True}
MEAN = {"type": "expect_column_mean_to_be_between", "kwargs": {"column": "price", "min_value": 1}}


def suite(*expectations, **changes):
    """A suite as text."""
    return json.dumps({"name": "orders", "expectations": [*expectations], "meta": {}} | changes)


@pytest.fixture
def written(tmp_path):
    """Write a suite and read it."""

    def read(text, on_failure="hold"):
        (tmp_path / "suite.json").write_text(text)
        return load_suite(tmp_path / "suite.json", on_failure)

    return read


def of(part, **said):
    """An expectation that says something to the hub."""
    return {**part, "meta": {"aggregator": said}}


def test_actions_come_from_the_rule_the_severity_and_the_table(written):
    """A rule's own word wins over the table's; a rule of little severity only ever warns."""
    read = written(suite(KNOWN, of(KNOWN, on_failure="divert", name="id"), {**KNOWN, "severity": "warning"}))
    assert [(rule.name, rule.action) for rule in read.rules] == [
        ("orders/expect_column_values_to_not_be_null(id)", "hold"),
        ("orders/id", "divert"),
        ("orders/expect_column_values_to_not_be_null(id) 2", "warn"),
    ]
    assert read.diverts


REFUSALS = [
    pytest.param(suite(MEAN), "divert", "names no records", id="a rule about a column as a whole diverts"),
    pytest.param(suite(of(MEAN, on_failure="divert")), "hold", "names no records", id="so it says itself"),
    pytest.param(
        suite({**KNOWN, "kwargs": {"column": "id", "row_condition": {**NULL, "is_null": False}}}),
        "divert",
        "cannot divert",
        id="condition",
    ),
    pytest.param(
        suite({**KNOWN, "kwargs": {"column": "id", "row_condition": "x > 1", "condition_parser": "pandas"}}),
        "hold",
        "row_condition is one comparison",
        id="a condition in another language",
    ),
    pytest.param("[1", "hold", r"is not JSON \(line 1\)", id="no JSON"),
    pytest.param("[1]", "hold", "is no suite", id="no object"),
    pytest.param(suite(), "hold", "has no expectations", id="empty"),
    pytest.param(suite({"expectation_type": "x", "kwargs": {}}), "hold", "before 1.0", id="written by an old version"),
    pytest.param(suite(of(KNOWN, on_failure="drop")), "hold", "divert, hold, warn", id="unknown action"),
    pytest.param(suite(of(KNOWN, onfailure="hold")), "hold", "not onfailure", id="unknown word"),
    pytest.param(suite(of(KNOWN, view="lines")), "hold", "no view lines", id="unknown view"),
    pytest.param(
        suite(KNOWN, meta={"aggregator": {"views": {"a": "b.x", "b": "a.y"}}}), "hold", "rests on itself", id="circle"
    ),
    *(
        pytest.param(
            suite({"type": f"expect_column_values_to_{kind}", "kwargs": {"column": "x", **patterns}}),
            "hold",
            "takes patterns that RE2 compiles",
            id=f"{kind} {patterns}",
        )
        for kind in ("match_regex", "not_match_regex", "match_regex_list", "not_match_regex_list")
        for patterns in (
            [{"regex": "(?=a)"}, {"regex": r"(a)\1"}, {"regex": "("}, {"regex": 1}, {"regex": "((a{99}){99}){99}"}]
            if not kind.endswith("list")
            else [{"regex_list": ["a", "(?<!a)"]}, {"regex_list": [None]}, {"regex_list": "a"}]
        )
    ),
    pytest.param(suite({**KNOWN, "kwargs": {"column": "*"}}), "hold", "takes every column", id="every column"),
    *(
        pytest.param(suite({"type": kind, "kwargs": {name: value}}), "hold", f"{name} is a", id=f"{name}: {value}")
        for kind, name, values in (
            (KNOWN["type"], "column", ([], ["id"], {}, None, 1, "a b")),
            ("expect_column_pair_values_to_be_equal", "column_A", ([], ["id"])),
            ("expect_compound_columns_to_be_unique", "column_list", ([], "id", [["id"]], ["*"])),
            ("expect_table_columns_to_match_set", "column_set", ([], "id", [None])),
        )
        for value in values
    ),
]


@pytest.mark.parametrize(("text", "on_failure", "words"), REFUSALS)
def test_what_cannot_be_is_refused_with_a_sentence(written, text, on_failure, words):
    """Before anything runs, and by the name of the file."""
    with pytest.raises(SuiteFaults, match=words):
        written(text, on_failure)


def test_whatever_is_divertible_diverts(written):
    """Every condition of the documented list is accepted."""
    rules = [{"type": kind, "kwargs": {"column": "id"}} for kind in sorted(DIVERTIBLE)]
    assert {rule.action for rule in written(suite(*rules), "divert").rules} == {"divert"}


LAKE = "lake: {path: lake, format: delta, commit_interval: 30s}\n"


def lake(table, *suites):
    """A lake section with suites."""
    said = ", ".join(f"{{suite: {one}, on_failure: divert}}" for one in suites)
    return f"lake:\n  path: lake\n  tables:\n    {table}:\n      quality: [{said}]\n"


def test_faults_have_file_line_and_place(changed, tmp_path):
    """A suite's faults stand among the configuration's own."""
    (tmp_path / "s.json").write_text(suite(MEAN))
    (line,) = changed(LAKE, lake("orders", "s.json"))
    assert line.startswith("hub.yaml:18: lake.tables.orders.quality[0].suite: s.json: orders/expect_column_mean")


def test_a_missing_file_and_a_table_that_nothing_feeds(changed, tmp_path):
    """A suite that would never be used is a fault, because nobody would notice."""
    (tmp_path / "s.json").write_text(suite(KNOWN))
    (line,) = changed(LAKE, lake("orders", "none.json"))
    assert "no such text file" in line
    (line,) = changed(LAKE, lake("bookings", "s.json"))
    assert "no rule under `topics` feeds" in line
    assert changed(LAKE, lake("payments.eu", "s.json")) == []


def test_names_beside_a_table_are_the_gates(changed):
    """A topic cannot be sent where the quarantine or the history lies."""
    (line,) = changed('lake: "{topic}"', 'lake: "{topic}__quarantine"')
    assert "the quality gate writes those" in line


def test_suites_of_one_table_are_told_apart(changed, tmp_path):
    """By their names; and a view has one path."""
    views = {"aggregator": {"views": {"line": "lines"}}}
    (tmp_path / "a.json").write_text(suite(KNOWN, meta=views))
    (tmp_path / "b.json").write_text(suite(KNOWN, name="b", meta={"aggregator": {"views": {"line": "rows"}}}))
    (line,) = changed(LAKE, lake("orders", "a.json", "a.json"))
    assert "has the name of another one" in line
    (line,) = changed(LAKE, lake("orders", "a.json", "b.json"))
    assert "another path" in line


@pytest.mark.parametrize("name", ["bookings", "personal-data"])
def test_the_shipped_suites_are_commented_suites(name):
    """Each can be used as the full example does, and says why each of its rules is there."""
    path = Path(__file__).parents[3] / "configs" / "expectations" / f"{name}.json"
    read = load_suite(path, "divert" if name == "bookings" else "hold")
    data = json.loads(path.read_text())
    assert len(read.rules) == len(data["expectations"]) == sum(bool(one["notes"]) for one in data["expectations"])
    assert data["meta"]["great_expectations_version"].startswith("1.")


def test_a_suite_without_end_is_told_as_any_that_is_no_json(written):
    """Brackets that nobody closes, more than Python nests."""
    with pytest.raises(SuiteFaults) as caught:
        written('{"name": "x", "expectations": ' + "[" * 100_000)
    assert caught.value.faults == ("suite.json is not JSON",)
