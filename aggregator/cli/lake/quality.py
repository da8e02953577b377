"""`aggregator lake quality`: shows what the quality gate found, what it kept back, and how long it took.

Invariant: the command reads the history beside the tables, and shows names, counts and times.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table, write_page
from aggregator.config.load import load_config
from aggregator.moments import to_the_second

if TYPE_CHECKING:
    from aggregator.report.quality import QualityReport

_AUDITS = ("when", "verdict", "records", "diverted", "version", "gate s", "commit s")
_RULES = ("rule", "on failure", "commits", "failed", "not evaluated", "values", "failed values")
_SHOWN = 10


@click.command(epilog="\b\nExamples:\n  aggregator lake quality bookings\n  aggregator lake quality --html page.html")
@config_option
@click.argument("tables", nargs=-1)
@click.option("--days", type=click.IntRange(1), default=7, show_default=True, help="So many of the newest days.")
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write it as a page, too.")
@output_option
def quality(config: Path, *, tables: tuple[str, ...], days: int, html: Path | None, output: str) -> None:
    """What the quality gate found in every commit: all tables unless some are named."""
    from aggregator.report.quality import quality_report

    found = quality_report(load_config(config, os.environ), tables, days=days, now=datetime.now(UTC))
    if html is not None:
        from aggregator.report.quality_page import quality_page

        write_page(quality_page(found), html)
    emit(found.plain(), output, lambda: _text(found))


def _text(found: "QualityReport") -> Iterator[str]:
    if not found.tables:
        yield "no table has a suite, or has been audited"
    for one in found.tables:
        verdicts = ", ".join(f"{name} {count}" for name, count in sorted(one.totals.verdicts.items())) or "none yet"
        cost = f"gate {one.totals.audit_s:.1f} s, commits {one.totals.commit_s:.1f} s"
        yield f"{one.table}: {verdicts}; diverted {one.totals.diverted}; {cost}"
        yield from table(
            _RULES,
            [
                (rule.rule, rule.action, rule.audits, rule.failed, rule.raised, rule.evaluated, rule.unexpected)
                for rule in one.rules
            ],
        )
        yield ""
        yield from table(
            _AUDITS,
            [
                (
                    to_the_second(audit.at_ms),
                    audit.verdict.value,
                    audit.rows,
                    audit.diverted,
                    audit.version,
                    round(audit.audit_s, 2),
                    None if audit.commit_s is None else round(audit.commit_s, 2),
                )
                for audit in one.audits[:_SHOWN]
            ],
        )
        yield ""
