"""`aggregator policy`: the group, and `explain`, which shows the rule behind every field before anything runs.

Invariant: `explain` reads a policy and a schema, but no record, no key and no cluster. It prints what a strip would do.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click

from aggregator.cli.policy.diff import diff
from aggregator.cli.policy.preview import preview
from aggregator.cli.policy.sources import FILE, required, schema_text
from aggregator.cli.policy.suggest import suggest
from aggregator.cli.policy.test import test
from aggregator.cli.terminal.command_group import CommandGroup
from aggregator.cli.terminal.output import emit, output_option, table
from aggregator.errors import ConfigError, DeadLetterError
from aggregator.machine_clock import utc_today
from aggregator.privacy.plan.compile import compile_plan
from aggregator.privacy.plan.plan import Row, StripPlan
from aggregator.privacy.policy.file import Policy, load_policy
from aggregator.privacy.policy.precedence import Scope, key_scope, value_scope
from aggregator.privacy.topic.values import schemaless_decisions

_COLUMNS = ("path", "type", "tags", "operator", "class", "because")


@click.group(
    cls=CommandGroup,
    epilog="\b\nExample:\n  aggregator policy explain policies/retail.yaml --topic orders --schema orders.avsc",
)
def policy() -> None:
    """What happens to each field, and why.

    A policy's faults are told by `aggregator config lint`, with those of hub.yaml.
    """


for _command in (preview, diff, test, suggest):
    policy.add_command(_command)


@policy.command(
    epilog="\b\nExample:\n  aggregator policy explain policies/retail.yaml --topic orders --schema orders.avsc"
)
@click.argument("policy", type=FILE)
@click.option("--topic", required=True, help="Edge topic; selects the policy's patterns.")
@click.option("--schema", type=FILE, help="The writer's schema; not for topics whose values are JSON, text or bytes.")
@click.option("--today", type=click.DateTime(["%Y-%m-%d"]), help="Decides which `keep` has expired; today by default.")
@output_option
def explain(policy: Path, topic: str, schema: Path | None, today: Any, output: str) -> None:
    """Every leaf of a schema: its tags, the rule that fired, the operator, and what is left of the value.

    Beside them what becomes of the record key and of headers. Pseudonymised data is still personal data.
    """
    answer = _answer(load_policy(policy), topic, schema, today.date() if today else utc_today())
    emit(answer, output, lambda: _text(answer))


def _answer(policy: Policy, topic: str, schema: Path | None, today: date) -> dict[str, Any]:
    view, keys, plan = policy.view(topic), key_scope(policy, topic), None
    if view.value_format.has_schema:
        required({"--schema": schema}, "it says which fields there are")
        assert schema is not None
        plan = _plan(value_scope(policy, topic), schema, today)
    rows = plan.rows if plan else _rows(policy, topic, today)
    decision = keys.decide_whole(today)
    return {
        "policy": policy.policy,
        "version": policy.version,
        "hash": policy.hash,
        "topic": topic,
        "key": {"operator": decision.rule.operator, "class": decision.privacy_class, "because": decision.because},
        "headers": list(view.headers),
        "conditions": len(view.drop_record),
        "fields": [{**dict(zip(_COLUMNS, _cells(row), strict=True)), "tags": list(row.tags)} for row in rows],
        "schema": plan.schema if plan else None,
    }


def _plan(scope: Scope, schema: Path, today: date) -> StripPlan:
    try:
        return compile_plan(schema_text(schema), scope, today)
    except DeadLetterError as error:
        raise ConfigError(f"{schema}: {error.message}", hint=error.hint) from None


def _rows(policy: Policy, topic: str, today: date) -> Sequence[Row]:
    """What the policy says of a topic without a schema: the paths that are written; whatever no path names leaves."""
    return [
        Row(path, policy.view(topic).value_format.value, (), one.because, one.rule.operator, one.privacy_class)
        for path, one in schemaless_decisions(policy, topic, today)
    ]


def _cells(row: Row) -> tuple[str, ...]:
    return row.path or ".", row.type, ",".join(row.tags), row.operator, row.privacy_class, row.because


def _text(answer: dict[str, Any]) -> Iterator[str]:
    yield f"policy {answer['policy']} version {answer['version']} ({answer['hash'][:12]}), topic {answer['topic']}"
    yield f"key: {answer['key']['operator']} ({answer['key']['because']})"
    yield f"headers: {', '.join(answer['headers']) or 'none pass'}"
    if answer["conditions"]:
        yield f"drop_record: {answer['conditions']} conditions"
    rows = [[",".join(one["tags"]) if name == "tags" else one[name] for name in _COLUMNS] for one in answer["fields"]]
    yield from table(_COLUMNS, rows)
