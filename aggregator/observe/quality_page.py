"""The quality report as one HTML page: nothing to load, nothing to run, readable on paper, in the dark.

Invariants: every text is escaped, because names of rules and columns are other people's; no script, no address, and no
value of a record, because the report has none.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape

from aggregator.lake.quality.history import Audit
from aggregator.observe.quality import QualityReport, TableQuality

_STYLE = """
:root { color-scheme: light dark; --line: #c8ccd2; --soft: #5b6470; --bad: #a4262c; --warn: #8a5a00; --good: #0b6e4f; }
@media (prefers-color-scheme: dark) {
  :root { --line: #3b424c; --soft: #9aa4b1; --bad: #ff8b8b; --warn: #f0b95a; --good: #6fd3ac; }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 0 auto; max-width: 78rem; padding: 1.5rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2rem 0 .5rem; } h3 { font-size: 1rem; }
p { margin: .3rem 0; } .soft { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top; }
th { font-weight: 600; } .n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.publish { color: var(--good); } .warn, .divert { color: var(--warn); } .hold { color: var(--bad); font-weight: 600; }
@media print { body { max-width: none; } }
"""
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_RULES = ("rule", "column", "on failure", "commits", "failed", "not evaluated", "values", "failed values")
_AUDITS = ("when", "verdict", "records", "diverted", "version", "gate", "commit", "why")
Cell = str | int | None


def quality_page(report: QualityReport) -> str:
    """The whole page."""
    tables = "".join(map(_table_part, report.tables)) or "<p>No table has been audited.</p>"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(report.hub)}: the quality gate</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(report.hub)}: the quality gate</h1>
<p class="soft">Made {_time(report.made_at)}. The newest {report.days} days that have any verdict.</p>
<p>Every commit is audited before anybody can read it. This page has names and counts, and no value of any record.</p>
<main>
{tables}
</main>
</body>
</html>
"""


def _table_part(one: TableQuality) -> str:
    sums = one.totals
    verdicts = ", ".join(f"{count:,} {name}" for name, count in sorted(sums.verdicts.items())) or "none yet"
    cost = f"The gate took {sums.audit_s:.1f} s, the commits {sums.commit_s:.1f} s."
    rules = [
        (rule.rule, rule.column, rule.action, rule.audits, rule.failed, rule.raised, rule.evaluated, rule.unexpected)
        for rule in one.rules
    ]
    return f"""<section><h2>{escape(one.table)}</h2>
<p>Commits: {escape(verdicts)}. Records in the quarantine since then: {sums.diverted:,}. {cost}</p>
<h3>Rules</h3>{_grid(_RULES, 3, map(_row, rules))}
<h3>Newest verdicts</h3>{_grid(_AUDITS, 2, map(_audit_row, one.audits))}
</section>
"""


def _audit_row(audit: Audit) -> str:
    why = "; ".join(
        f"{rule.rule}: {rule.note or 'not evaluated'}" if rule.raised else f"{rule.rule}: {rule.unexpected or ''}"
        for rule in audit.rules
        if not rule.passed
    )
    seconds = ["-" if one is None else f"{one:.2f} s" for one in (audit.audit_s, audit.commit_s)]
    when = _time(datetime.fromtimestamp(audit.at_ms / 1000, UTC))
    verdict = audit.verdict.value
    cells = [f"<td>{when}</td>", f'<td class="{verdict}">{verdict}</td>']
    cells += map(_cell, (audit.rows, audit.diverted, audit.version))
    cells += [f'<td class="n">{one}</td>' for one in seconds]
    return f"<tr>{''.join(cells)}<td>{escape(why)}</td></tr>"


def _row(cells: Sequence[Cell]) -> str:
    return f"<tr>{''.join(map(_cell, cells))}</tr>"


def _cell(content: Cell) -> str:
    if isinstance(content, str):
        return f"<td>{escape(content)}</td>"
    return f'<td class="n">{"-" if content is None else f"{content:,}"}</td>'


def _grid(heads: Sequence[str], words: int, rows: Iterable[str]) -> str:
    """A table whose first columns are words, and whose others stand above numbers."""
    numbers = ' class="n"'
    shown = "".join(
        f'<th scope="col"{"" if at < words or head == "why" else numbers}>{escape(head)}</th>'
        for at, head in enumerate(heads)
    )
    return f'<div class="scroll"><table><thead><tr>{shown}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>'


def _time(when: datetime) -> str:
    return escape(f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC")
