"""Derives the verdict on one commit from the findings of its rules.

Invariant: pure. A rule that could not be evaluated holds the commit, whatever action it asks for. Findings hold counts,
never values.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from aggregator.config.suites import Rule


class Verdict(StrEnum):
    """What happens to a commit, from the best case to the worst. `release` is a hold that somebody has released."""

    PUBLISH = "publish"
    WARN = "warn"
    DIVERT = "divert"
    RELEASE = "release"
    HOLD = "hold"


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """What one rule found in one commit.

    Attributes:
        rule: The rule.
        passed: Whether its expectation was met.
        raised: It could not be evaluated.
        evaluated: Values that it looked at; None for a rule about the table.
        unexpected: Values that failed; None for a rule about the table.
        note: Why it could not be evaluated, in words of the hub's own.
    """

    rule: Rule
    passed: bool
    raised: bool = False
    evaluated: int | None = None
    unexpected: int | None = None
    note: str = ""

    def __str__(self) -> str:
        """The finding as one line for reports."""
        if self.raised:
            return f"{self.rule.name} could not be evaluated{f' ({self.note})' if self.note else ''}"
        if self.unexpected is None:
            return f"{self.rule.name} failed"
        of = "" if self.evaluated is None else f" of {self.evaluated}"
        return f"{self.rule.name} failed for {self.unexpected}{of} values"


def judge(findings: Sequence[RuleFinding]) -> Verdict:
    """The strictest verdict that a failed rule asks for; a rule that raised asks for `hold`."""
    if any(one.raised for one in findings):
        return Verdict.HOLD
    asked = {one.rule.action for one in findings if not one.passed}
    return next((verdict for verdict in reversed(Verdict) if verdict.value in asked), Verdict.PUBLISH)


def diverting(findings: Sequence[RuleFinding]) -> list[RuleFinding]:
    """The failures whose records go into the quarantine."""
    return [one for one in findings if not one.passed and one.rule.action == "divert"]
