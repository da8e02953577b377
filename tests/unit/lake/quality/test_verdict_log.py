"""The history keeps every verdict, in order, through crashes."""

from dataclasses import replace

import duckdb
import pytest

from aggregator.config.suites import Rule
from aggregator.lake.quality.verdict_log import (
    RuleCount,
    append_audit,
    append_commit,
    append_completion,
    read,
    totals,
    unrecorded_commit,
)
from aggregator.lake.quality.verdicts import RuleFinding, Verdict
from aggregator.lake.storage.folder import Folder
from tests.unit.lake.quality.audits import DAY_MS, audit


def test_what_is_appended_is_read(tmp_path):
    """A verdict, then its commit; days can be read from the end."""
    first, second = audit(1), audit(2, Verdict.DIVERT, diverted=2)
    append_audit(Folder(str(tmp_path)), first)
    append_commit(Folder(str(tmp_path)), replace(first, version=4, commit_s=0.25))
    append_audit(Folder(str(tmp_path)), second)
    assert read(Folder(str(tmp_path)), "t") == [replace(first, version=4, commit_s=0.25), second]
    assert read(Folder(str(tmp_path)), "t", days=1) == [second]
    assert read(Folder(str(tmp_path)), "other") == []


def test_a_line_cut_short_is_passed_over(tmp_path):
    """Power may fail within a line; the lines around it stay."""
    append_audit(Folder(str(tmp_path)), audit(1))
    (path,) = (tmp_path / "t__quality").glob("*.jsonl")
    with path.open("a") as out:
        out.write('{"event": "aud\n')
    append_commit(Folder(str(tmp_path)), audit(1, version=9, commit_s=0.1))
    (found,) = read(Folder(str(tmp_path)), "t")
    assert found.version == 9


@pytest.mark.parametrize("sign", ["\u2028", "\x85", "\x1c"])
def test_a_name_with_what_unicode_calls_an_end_of_a_line_is_read(tmp_path, sign):
    """Suites and rules may have any name; a line of the history ends at its own end only."""
    named = audit(1, suites={f"s{sign}x": "abc"})
    append_audit(Folder(str(tmp_path)), named)
    assert read(Folder(str(tmp_path)), "t") == [named]


def test_a_completed_range_belongs_to_the_verdict_that_decided_it(tmp_path):
    """Of two audits of a range, the decided one gets the version; one that was held never does."""
    append_audit(Folder(str(tmp_path)), audit(1, Verdict.HOLD))
    append_audit(Folder(str(tmp_path)), audit(1, Verdict.DIVERT, id="decided", diverted=2))
    append_completion(Folder(str(tmp_path)), "t", 7, [("eu.t", 0, 10, 20)], now_s=DAY_MS / 1000)
    assert [(one.id, one.version) for one in read(Folder(str(tmp_path)), "t")] == [("id1", None), ("decided", 7)]


@pytest.mark.parametrize(
    ("newest", "reached", "found"),
    [
        pytest.param(audit(2), {("eu.t", 0): 30}, True, id="in the table"),
        pytest.param(audit(2), {("eu.t", 0): 20}, False, id="not in the table"),
        pytest.param(audit(2), {}, False, id="a table without positions"),
        pytest.param(audit(2, version=4), {("eu.t", 0): 30}, False, id="said"),
        pytest.param(audit(2, Verdict.HOLD), {("eu.t", 0): 30}, False, id="held"),
        pytest.param(audit(2), {("eu.t", 0): 40}, False, id="somebody else's commit lies behind it"),
    ],
)
def test_a_commit_that_a_crash_left_unsaid_is_known_by_the_positions(newest, reached, found):
    """Only the newest audit can be one: those before it were decided anew after their crash."""
    assert unrecorded_commit([audit(1), newest], reached) == (newest if found else None)
    assert unrecorded_commit([newest, audit(9)], reached) is None
    assert unrecorded_commit([], reached) is None


def test_totals_count_what_was_committed_or_held():
    """For metrics: an audit that a crash left without a commit counts with its time alone."""
    audits = [
        audit(1, version=1, commit_s=0.25),
        audit(2, Verdict.DIVERT, diverted=2),
        audit(3, Verdict.DIVERT, diverted=2, version=2, commit_s=0.5),
        audit(4, Verdict.HOLD),
    ]
    sums = totals(audits)
    assert sums.verdicts == {"publish": 1, "divert": 1, "hold": 1}
    assert (sums.diverted, sums.audit_s, sums.commit_s) == (2, 2.0, 0.75)
    assert sums.unexpected == {"s/status is known": 6}


def test_the_history_is_a_table_for_duckdb(tmp_path):
    """An analyst reads it as it lies there."""
    append_audit(Folder(str(tmp_path)), audit(1))
    append_audit(Folder(str(tmp_path)), audit(2, Verdict.WARN))
    with duckdb.connect() as connection:
        query = f"select verdict, rows, rules[1].rule from read_json('{tmp_path}/t__quality/*.jsonl') order by at_ms"
        assert connection.sql(query).fetchall() == [
            ("publish", 10, "s/status is known"),
            ("warn", 10, "s/status is known"),
        ]


def test_no_argument_of_a_rule_is_kept(tmp_path):
    """The values that a rule allows may be somebody's; the history has names and counts."""
    secret = Rule("s/r", "expect_column_values_to_not_be_in_set", {"column": "a", "value_set": ["canary"]}, "hold")
    append_audit(Folder(str(tmp_path)), audit(1, rules=(RuleCount.of(RuleFinding(secret, passed=False)),)))
    (path,) = (tmp_path / "t__quality").glob("*.jsonl")
    assert "canary" not in path.read_text()
