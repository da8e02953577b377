"""`aggregator plan`: what a run would create or change at central, and which fields go where.

Invariant: reads clusters, registries and the lake; with `--apply` it writes settings of central's topics, and else
nothing. With `--detailed-exitcode`: 3 when changes are pending, 0 when none; what `--apply` carried over is pending no
more. 4, with or without, when an edge does not answer or a run would hold something.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.output import (
    cluster_lines,
    config_option,
    drift_lines,
    emit,
    output_option,
    progress,
    table,
)
from aggregator.config.load import load_config
from aggregator.errors import ExitCode, Failed

if TYPE_CHECKING:
    from aggregator.config.model import HubConfig
    from aggregator.plan.run_plan import HubPlan

# What is carried over only by this word.
_UNBOUNDED = "unbounded"


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator plan\n"
    "  aggregator plan --detailed-exitcode > plan.txt || test $? -eq 3\n"
    "  aggregator plan --apply\n"
    "  aggregator plan --apply --yes --confirm unbounded\n"
    "  aggregator plan -o json | jq '.fields[] | select(.privacy_class == \"clear\") | .path'"
)
@config_option
@click.option("--detailed-exitcode", is_flag=True, help="Exit 3 when changes are pending, 0 when none.")
@click.option("--apply", "applies", is_flag=True, help="Give central's topics the settings that differ at their edges.")
@click.option("--yes", is_flag=True, help="With --apply: do not ask.")
@click.option(
    "--confirm",
    "words",
    type=click.Choice([_UNBOUNDED]),
    multiple=True,
    help="With --apply: also settings under which central keeps records for ever.",
)
@output_option
def plan(
    config: Path, output: str, *, detailed_exitcode: bool, applies: bool, yes: bool, words: tuple[str, ...]
) -> None:
    """Show what `run` would create or change: topics, schemas and their compatibility, lake tables, every field.

    Nothing is written but, with --apply, the settings of central's topics that differ from their edges'. Exit 4 when an
    edge does not answer, or when a run would hold a flow or refuse a schema.
    """
    from aggregator.machine_clock import utc_today
    from aggregator.plan.run_plan import hub_plan
    from aggregator.privacy.policy.file import load_policy

    if words and not applies:
        raise click.UsageError("--confirm says what --apply may carry over")
    hub = load_config(config, os.environ)
    policies = {rule.policy: load_policy(rule.policy) for rule in hub.topics}
    found = hub_plan(hub, policies, now_ms=int(time.time() * 1000), today=utc_today())
    emit(found.plain(), output, lambda: _text(found))
    if applies:
        _apply(hub, found, yes=yes, unbounded=_UNBOUNDED in words)
    if found.troubled:
        raise SystemExit(ExitCode.HELD)
    if detailed_exitcode and (found.makes if applies else found.pending):
        raise SystemExit(ExitCode.PENDING)


def _apply(hub: "HubConfig", found: "HubPlan", *, yes: bool, unbounded: bool) -> None:
    """Carry over what was shown.

    Raises:
        Failed: central does not take it; names the topics.
    """
    from aggregator.kafka.cluster.topic_settings import change_settings

    wanted = found.changes(unbounded=unbounded)
    for one in found.drifts:
        if one.action == _UNBOUNDED and not unbounded:
            progress(f"{one.topic} at central stays at {one.setting}={one.central}: {one.why}; say --confirm unbounded")
    if not wanted:
        return
    if not yes and not sys.stdin.isatty():
        raise click.UsageError("without a terminal to ask on, say --yes")
    if not yes:
        click.confirm(f"change settings of {len(wanted)} topics at central?", abort=True, err=True)
    refused = change_settings(hub.central, wanted)
    left = {one[:2] for one in refused}
    for name, given in wanted.items():
        for key, value in given.items():
            if (name, key) not in left:
                progress(f"{name} at central: {key}={value}")
    if refused:
        lines = tuple(f"{one.setting} of {one.topic} was not changed: {one.why}" for one in refused)
        raise Failed(
            lines, hint=_mended(any(one.is_right for one in refused), sorted({one.setting for one in refused}))
        )


def _mended(is_right: bool, settings: Sequence[str]) -> str:
    if is_right:
        return "give the central principal AlterConfigs on these topics, or set them with kafka-configs"
    return (
        f"see what central's brokers allow; to leave the value to central, write {', '.join(settings)} into"
        " `central_config` of the rule"
    )


def _text(found: "HubPlan") -> Iterator[str]:
    yield from table(
        ("cluster", "topic", "action", "partitions", "settings"),
        [
            (one.cluster, one.topic, one.action, one.partitions, " ".join(f"{k}={v}" for k, v in one.settings.items()))
            for one in found.topics
        ],
    )
    for name in sorted({name for one in found.topics for name in one.left_out}):
        count = sum(name in one.left_out for one in found.topics)
        yield f"left out of {count} topics: {name}, which central does not know and does not need"
    yield ""
    yield from table(
        ("edge", "topic", "central", "partitions", "new", "waiting records"),
        [(one.edge, one.topic, one.central, one.partitions, one.new, one.waiting_records) for one in found.flows],
    )
    for reason in (reason for flow in found.flows for reason in flow.held):
        yield f"held: {reason}"
    if found.schemas:
        yield ""
        rows = [(one.subject, one.writer, one.edge, one.action, one.detail) for one in found.schemas]
        yield from table(("subject", "of", "edge", "action", "why"), rows)
    if found.tables:
        yield ""
        tables = [(one.table, one.action, ", ".join(one.columns), one.detail) for one in found.tables]
        yield from table(("lake table", "action", "columns", "why"), tables)
    yield from drift_lines(found.drifts)
    yield from _fields(found)
    yield ""
    strange = {one.name for one in found.clusters if one.why}
    yield from cluster_lines(found.clusters)
    for edge, why in found.unreachable.items():
        if edge not in strange:
            yield f"edge {edge} does not answer: {why}"
    yield "changes are pending" if found.pending else "no changes"


def _fields(found: "HubPlan") -> Iterator[str]:
    """One table per edge topic."""
    for edge, topic, central in dict.fromkeys((one.edge, one.topic, one.central) for one in found.fields):
        yield ""
        yield f"{edge}/{topic} -> {central}:"
        rows = [
            (one.path, one.type, ",".join(one.tags), one.operator, one.privacy_class, one.because)
            for one in found.fields
            if (one.edge, one.topic) == (edge, topic)
        ]
        yield from table(("path", "type", "tags", "operator", "class", "because"), rows)
