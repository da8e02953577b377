"""An audit of a commit, as the history of verdicts keeps it."""

from dataclasses import replace

from aggregator.config.suites import Rule
from aggregator.lake.quality.verdict_log import (
    CommitAudit,
    RuleCount,
)
from aggregator.lake.quality.verdicts import RuleFinding, Verdict

RULE = Rule(
    "s/status is known", "expect_column_values_to_be_in_set", {"column": "status", "value_set": ["A"]}, "divert"
)


DAY_MS = 86_400_000


def audit(number, verdict=Verdict.PUBLISH, **changes):
    """One audit of ten offsets."""
    ranges = (("eu.t", 0, number * 10, number * 10 + 10),)
    rules = (RuleCount.of(RuleFinding(RULE, passed=verdict is Verdict.PUBLISH, evaluated=10, unexpected=2)),)
    made = CommitAudit(f"id{number}", number * DAY_MS, "t", verdict, 10, 0, ranges, {"s": "abc"}, rules, 0.5)
    return replace(made, **changes)
