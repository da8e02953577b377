"""Makes the quality report as one HTML page. It loads nothing, runs nothing, and is readable on paper and in dark mode.

Invariants: every text is escaped, because other people choose the names of rules and columns. There is no script and no
address. The page has no value of a record, because the report has none.
"""

from datetime import UTC, datetime

from aggregator.lake.quality.verdict_log import CommitAudit
from aggregator.report.html import cell, document, escaped, grid, moment, row
from aggregator.report.quality import QualityReport, TableQuality

_STYLE = """
.publish { color: var(--good); } .warn, .divert { color: var(--warn); } .hold { color: var(--bad); font-weight: 600; }
"""
_RULES = ("rule", "column", "on failure", "commits", "failed", "not evaluated", "values", "failed values")
_AUDITS = ("when", "verdict", "records", "diverted", "version", "gate", "commit", "why")


def quality_page(report: QualityReport) -> str:
    """The quality report as one page of HTML."""
    tables = "".join(map(_table_part, report.tables)) or "<p>No table has been audited.</p>"
    made = f"Made {moment(report.made_at)}. The newest {report.days} days that have any verdict."
    kept = "Every commit is audited before anybody can read it."
    kept += " This page has names and counts, and no value of any record."
    title = f"{report.hub}: the quality gate"
    return document(title, f'<p class="soft">{made}</p>\n<p>{kept}</p>', tables, style=_STYLE)


def _table_part(one: TableQuality) -> str:
    sums = one.totals
    verdicts = ", ".join(f"{count:,} {name}" for name, count in sorted(sums.verdicts.items())) or "none yet"
    cost = f"The gate took {sums.audit_s:.1f} s, the commits {sums.commit_s:.1f} s."
    rules = [
        (rule.rule, rule.column, rule.action, rule.audits, rule.failed, rule.raised, rule.evaluated, rule.unexpected)
        for rule in one.rules
    ]
    return f"""<section><h2>{escaped(one.table)}</h2>
<p>Commits: {escaped(verdicts)}. Records in the quarantine since then: {sums.diverted:,}. {cost}</p>
<h3>Rules</h3>{grid(_RULES, range(3, 8), "".join(map(row, rules)))}
<h3>Newest verdicts</h3>{grid(_AUDITS, range(2, 7), "".join(map(_audit_row, one.audits)))}
</section>
"""


def _audit_row(audit: CommitAudit) -> str:
    why = "; ".join(
        f"{rule.rule}: {rule.note or 'not evaluated'}" if rule.raised else f"{rule.rule}: {rule.unexpected or ''}"
        for rule in audit.rules
        if not rule.passed
    )
    seconds = ["-" if one is None else f"{one:.2f} s" for one in (audit.audit_s, audit.commit_s)]
    verdict = audit.verdict.value
    cells = [cell(moment(datetime.fromtimestamp(audit.at_ms / 1000, UTC))), cell(verdict, verdict)]
    cells += map(cell, (audit.rows, audit.diverted, audit.version))
    cells += [f'<td class="n">{one}</td>' for one in seconds]
    return f"<tr>{''.join(cells)}<td>{escaped(why)}</td></tr>"
