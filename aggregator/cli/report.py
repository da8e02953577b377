"""`aggregator report`: shows what was found in every field and how it was changed, for a hub that runs or ran.

Invariant: the command reads central only. It shows names, rules and numbers, never a value.
"""

import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import config_option, emit, output_option, table, write_page
from aggregator.config.load import load_config

if TYPE_CHECKING:
    from aggregator.report.report import Report

_TOTALS = ("edge", "consumed", "delivered", "dead", "suppressed", "stripped_values")
_FIELDS = ("schema_id", "path", "type", "operator", "left", "rule", "seen", "null", "transformed", "rejected")


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator report --html report.html\n"
    "  aggregator report -o json | jq '.unclassified'\n"
    "  aggregator report --json-schema > report.schema.json"
)
@config_option
@click.option("--html", type=click.Path(dir_okay=False, path_type=Path), help="Write one self-contained page here.")
@click.option("--json-schema", is_flag=True, help="Print the JSON Schema of `-o json`, and nothing else.")
@output_option
def report(config: Path, html: Path | None, output: str, *, json_schema: bool) -> None:
    """Report every field: its tags, the rule that decided, how often it was seen, null, changed and rejected.

    Totals and dead letters are those since the hub's first start. Fields are counted by the slots, of this epoch and of
    earlier ones up to an hour ago; `aggregator run --report DIR` keeps the report of a whole run. Pseudonymised data is
    still personal data.
    """
    if json_schema:
        from aggregator.report.report import json_schema as schema

        emit(schema(), "json", lambda: ())
        return
    from aggregator.report.inputs import ReportReader

    found = ReportReader(load_config(config, os.environ)).report(datetime.now(UTC))
    if html is not None:
        from aggregator.report.page import report_page

        write_page(report_page(found), html)
    emit(found.plain(), output, lambda: _text(found))


def _text(found: "Report") -> Iterator[str]:
    yield found.notice
    yield ""
    yield from table(_TOTALS, [[getattr(one, name) for name in _TOTALS] for one in found.edges])
    for topic in found.topics:
        keys = ", ".join(f"{name} version {version}" for name, version in sorted(topic.key_versions.items()))
        yield ""
        yield (
            f"{topic.edge}/{topic.topic}: policy {topic.policy} version {topic.policy_version}"
            f" ({topic.policy_hash[:12]}), keys: {keys or 'none'}"
        )
        yield from table(_FIELDS, [[getattr(one, name) for name in _FIELDS] for one in topic.fields])
    if found.unclassified:
        yield ""
        yield "without a rule, so that the default decides:"
        yield from (f"  {one.edge}/{one.topic}: {one.path} ({one.type}): {one.operator}" for one in found.unclassified)
    if found.dead_letters:
        yield ""
        rows = [(one.edge, one.topic, one.reason, one.count) for one in found.dead_letters]
        yield from table(("edge", "topic", "reason", "dead letters"), rows)
