"""The verdict is the worst that a failed rule asks for; what raised holds."""

import pytest

from aggregator.config.suites import Rule
from aggregator.lake.quality.verdicts import RuleFinding, Verdict, diverting, judge


def finding(action, *, passed=False, raised=False):
    """What a rule with this action found."""
    rule = Rule("s/r", "expect_column_values_to_not_be_null", {"column": "a"}, action)
    return RuleFinding(rule, passed=passed, raised=raised, evaluated=10, unexpected=0 if passed else 3)


@pytest.mark.parametrize(
    ("findings", "verdict"),
    [
        ([], Verdict.PUBLISH),
        ([finding("hold", passed=True), finding("divert", passed=True)], Verdict.PUBLISH),
        ([finding("warn")], Verdict.WARN),
        ([finding("warn"), finding("divert")], Verdict.DIVERT),
        ([finding("divert"), finding("hold")], Verdict.HOLD),
        ([finding("warn", raised=True)], Verdict.HOLD),
        ([finding("divert", raised=True), finding("hold", passed=True)], Verdict.HOLD),
    ],
)
def test_the_worst_wins_and_raising_holds(findings, verdict):
    """Publish, warn, divert, hold; a rule that could not be evaluated holds whatever it asks for."""
    assert judge(findings) is verdict


def test_only_failures_divert():
    """Rows leave for rules that failed and ask for it."""
    failed = finding("divert")
    assert diverting([failed, finding("divert", passed=True), finding("warn")]) == [failed]


def test_a_finding_reads_as_a_line_of_counts():
    """Names and numbers; nothing else is there to be said."""
    assert str(finding("hold")) == "s/r failed for 3 of 10 values"
    assert str(finding("hold", raised=True)) == "s/r could not be evaluated"
