"""Collects what the quality gate found, for each table: sums over some days, the findings of each rule, and the newest
verdicts.

Invariant: this module reads the history beside the tables and nothing else, neither Kafka nor a table. The result holds
names, counts and times.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from aggregator.config.lake_model import QUALITY
from aggregator.config.model import HubConfig
from aggregator.lake.quality.verdict_log import AuditTotals, CommitAudit, read, totals
from aggregator.lake.tables.formats import lake_config, lake_folder

NEWEST = 50


@dataclass(frozen=True, slots=True)
class RuleQuality:
    """One rule over the audits of a table.

    Attributes:
        rule: `<suite>/<rule>`.
        type: Great Expectations' name of the condition.
        column: What it speaks of; empty for the table.
        action: What a failure asks for.
        audits: Commits that it saw.
        failed: Those that it failed, or could not be evaluated for.
        raised: Those that it could not be evaluated for.
        evaluated: Values that it looked at.
        unexpected: Values that failed.
    """

    rule: str
    type: str
    column: str
    action: str
    audits: int
    failed: int
    raised: int
    evaluated: int
    unexpected: int


@dataclass(frozen=True, slots=True)
class TableQuality:
    """One table; `audits` are the newest, the newest first."""

    table: str
    totals: AuditTotals
    rules: tuple[RuleQuality, ...]
    audits: tuple[CommitAudit, ...]

    def plain(self) -> dict[str, Any]:
        """The table's part of what `-o json` promises."""
        return {
            "table": self.table,
            **asdict(self.totals),
            "rules": [asdict(rule) for rule in self.rules],
            "audits": [audit.plain() for audit in self.audits],
        }


@dataclass(frozen=True, slots=True)
class QualityReport:
    """Everything that `aggregator lake quality` shows."""

    hub: str
    made_at: datetime
    days: int
    tables: tuple[TableQuality, ...]

    def plain(self) -> dict[str, Any]:
        """The JSON object that `-o json` promises for a quality report."""
        made = self.made_at.astimezone(UTC).isoformat(timespec="seconds")
        return {"hub": self.hub, "made_at": made, "days": self.days, "tables": [one.plain() for one in self.tables]}


def quality_report(config: HubConfig, wanted: Sequence[str], *, days: int, now: datetime) -> QualityReport:
    """Read the history of every table that has one.

    Args:
        config: The hub.
        wanted: Tables; none for all.
        days: So many of the newest days that have any.
        now: The present.

    Raises:
        ConfigError: the hub has no lake.
        TableUnavailable: a file cannot be read.
    """
    lake, folder = lake_config(config), lake_folder(config)
    names = {name for name, table in lake.tables.items() if table.quality}
    names |= {name.removesuffix(QUALITY) for name in folder.folders() if name.endswith(QUALITY)}
    chosen = sorted(name for name in names if not wanted or name in wanted)
    tables = [table_quality(name, read(folder, name, days=days)) for name in chosen]
    return QualityReport(config.hub, now, days, tuple(tables))


def table_quality(table: str, audits: Sequence[CommitAudit]) -> TableQuality:
    """Sum up the audits of one table."""
    found: dict[str, RuleQuality] = {}
    for audit in audits:
        for one in audit.rules:
            before = found.get(one.rule) or RuleQuality(one.rule, one.type, one.column, one.action, 0, 0, 0, 0, 0)
            found[one.rule] = RuleQuality(
                one.rule,
                one.type,
                one.column,
                one.action,
                before.audits + 1,
                before.failed + (not one.passed),
                before.raised + one.raised,
                before.evaluated + (one.evaluated or 0),
                before.unexpected + (one.unexpected or 0),
            )
    return TableQuality(table, totals(audits), tuple(found.values()), tuple(reversed(audits[-NEWEST:])))
