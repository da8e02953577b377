"""`aggregator policy`: the group, and `explain`: the rule behind every field, before anything runs.

Invariant: `explain` reads a policy and a schema, no record, no key and no cluster; it prints what a strip would do.
"""

from datetime import date
from pathlib import Path
from typing import Any

import click

from aggregator.cli.output import emit, output_option, table
from aggregator.cli.policy_diff import diff
from aggregator.cli.policy_preview import preview
from aggregator.cli.policy_sources import FILE, schema_text
from aggregator.cli.policy_suggest import suggest
from aggregator.cli.policy_test import test
from aggregator.errors import ConfigError, DeadLetterError
from aggregator.privacy.compile import compile_plan
from aggregator.privacy.plan import Plan, Row
from aggregator.privacy.policy import load_policy
from aggregator.privacy.precedence import value_scope
from aggregator.privacy.topic import utc_today

_COLUMNS = ("path", "type", "tags", "operator", "class", "because")


@click.group(
    epilog="\b\nExample:\n  aggregator policy explain policies/retail.yaml --topic orders --schema orders.avsc"
)
def policy() -> None:
    """What happens to each field, and why."""


for _command in (preview, diff, test, suggest):
    policy.add_command(_command)


@policy.command(
    epilog="\b\nExample:\n  aggregator policy explain policies/retail.yaml --topic orders --schema orders.avsc"
)
@click.argument("policy", type=FILE)
@click.option("--topic", required=True, help="Edge topic; selects the policy's patterns.")
@click.option("--schema", required=True, type=FILE, help="The writer's schema.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="Decides which `keep` has expired; today by default.")
@output_option
def explain(policy: Path, topic: str, schema: Path, today: Any, output: str) -> None:
    """Every leaf of a schema: its tags, the rule that fired, the operator, and what is left of the value.

    Pseudonymised data is still personal data.
    """
    plan = _plan(policy, topic, schema, today.date() if today else utc_today())
    emit(_answer(plan), output, lambda: _text(plan))


def _plan(policy: Path, topic: str, schema: Path, today: date) -> Plan:
    scope, text = value_scope(load_policy(policy), topic), schema_text(schema)
    try:
        return compile_plan(text, scope, today)
    except DeadLetterError as error:
        raise ConfigError(f"{schema}: {error.message}", hint=error.hint) from None


def _answer(plan: Plan) -> dict[str, Any]:
    name, version, digest = plan.policy
    fields = [{**dict(zip(_COLUMNS, _cells(row), strict=True)), "tags": list(row.tags)} for row in plan.rows]
    head = {"policy": name, "version": version, "hash": digest, "topic": plan.topic}
    return {**head, "fields": fields, "schema": plan.schema}


def _cells(row: Row) -> tuple[str, ...]:
    return row.path or ".", row.type, ",".join(row.tags), row.operator, row.privacy_class, row.because


def _text(plan: Plan) -> list[str]:
    name, version, digest = plan.policy
    head = f"policy {name} version {version} ({digest[:12]}), topic {plan.topic}"
    return [head, *table(_COLUMNS, map(_cells, plan.rows))]
