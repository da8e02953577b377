"""`aggregator plan`: shows what a run would create or change at central, and which fields go where.

Invariant: the command reads clusters, registries and the lake. With `--apply` it writes settings of central's topics,
and nothing else. Exit code 3 and 0, with `--detailed-exitcode` only: changes are pending, or none are; changes that
`--apply` made are no longer pending. Exit code 4, with or without that option: an edge does not answer, a run would
hold something, or every record of a topic would be a dead letter. A configuration or a policy that `config lint`
refuses is refused before any cluster is asked.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.config import linted
from aggregator.cli.terminal.arguments import PATTERN
from aggregator.cli.terminal.confirmation import confirm
from aggregator.cli.terminal.output import (
    cluster_lines,
    config_option,
    drift_lines,
    emit,
    output_option,
    progress,
    table,
)
from aggregator.count_text import format_count, format_first
from aggregator.errors import ExitCode, FatalError, in_one_line
from aggregator.machine_clock import utc_now_ms

if TYPE_CHECKING:
    from aggregator.config.model import HubConfig
    from aggregator.plan.run_plan import HubPlan
    from aggregator.plan.summary import Summary

# The word for `--confirm` that also allows settings which keep records for ever.
_UNBOUNDED = "unbounded"


@click.command(
    epilog="\b\nExamples:\n"
    "  aggregator plan\n"
    "  aggregator plan --detailed-exitcode > plan.txt || test $? -eq 3\n"
    "  aggregator plan --problems\n"
    "  aggregator plan --edge eu --topic 'orders.*'\n"
    "  aggregator plan --apply\n"
    "  aggregator plan --apply --yes --confirm unbounded\n"
    "  aggregator plan -o json | jq '.fields[] | select(.privacy_class == \"clear\") | .path'"
)
@config_option
@click.option("--edge", default="", help="One edge; all by default.")
@click.option("--topic", type=PATTERN, help="Regular expression on the whole topic name, as edges call it.")
@click.option("--problems", is_flag=True, help="Only what a run would hold or refuse, dead letters, what is unknown.")
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
    config: Path,
    *,
    edge: str,
    topic: str | None,
    problems: bool,
    output: str,
    detailed_exitcode: bool,
    applies: bool,
    yes: bool,
    words: tuple[str, ...],
) -> None:
    """Show what `run` would create or change: topics, schemas and their compatibility, lake tables, every field.

    The first line counts: so much to add, so much to change. A few waiting records of each topic are looked at, so that
    what would stand still or become dead letters is told beforehand.

    Nothing is written but, with --apply, the settings of central's topics that differ from their edges'. Exit 4 when an
    edge does not answer, when a run would hold a flow or refuse a schema, or when a topic has nothing but dead letters.
    """
    from aggregator.machine_clock import utc_today
    from aggregator.plan.run_plan import hub_plan
    from aggregator.plan.selection import PlanSelection
    from aggregator.plan.summary import plan_summary

    if words and not applies:
        raise click.UsageError("--confirm says what --apply may carry over")
    hub, policies = linted(config)
    if edge and edge not in hub.edges:
        raise FatalError(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    whole = hub_plan(hub, policies, now_ms=utc_now_ms(), today=utc_today())
    found = PlanSelection(edge, topic).of(whole)
    shown, summary = PlanSelection(problems=problems).of(found), plan_summary(found)
    answer = {"summary": summary.plain()} | shown.plain() | {"pending": found.pending}
    emit(answer, output, lambda: _text(shown, summary))
    if applies:
        _apply(hub, found, yes=yes, unbounded=_UNBOUNDED in words)
    if found.troubled:
        raise SystemExit(ExitCode.HELD)
    if detailed_exitcode and (found.makes if applies else found.pending):
        raise SystemExit(ExitCode.PENDING)


def _apply(hub: "HubConfig", found: "HubPlan", *, yes: bool, unbounded: bool) -> None:
    """Change the settings at central that the plan showed, after a confirmation.

    Raises:
        FatalError: central does not take it; names the topics.
    """
    from aggregator.kafka.cluster.topic_settings import change_settings

    wanted = found.changes(unbounded=unbounded)
    for one in found.drifts:
        if one.action == _UNBOUNDED and not unbounded:
            progress(f"{one.topic} at central stays at {one.setting}={one.central}: {one.why}; say --confirm unbounded")
    if not wanted:
        return
    confirm(f"change settings of {format_count(len(wanted), 'topic')} at central?", yes=yes)
    refused = change_settings(hub.central, wanted)
    left = {one[:2] for one in refused}
    for name, given in wanted.items():
        for key, value in given.items():
            if (name, key) not in left:
                progress(f"{name} at central: {key}={value}")
    if refused:
        lines = tuple(f"{one.setting} of {one.topic} was not changed: {one.why}" for one in refused)
        raise FatalError(
            lines, hint=_mended(any(one.is_right for one in refused), sorted({one.setting for one in refused}))
        )


def _mended(is_right: bool, settings: Sequence[str]) -> str:
    if is_right:
        return "give the central principal AlterConfigs on these topics, or set them with kafka-configs"
    return (
        f"see what central's brokers allow; to leave the value to central, write {', '.join(settings)} into"
        " `central_config` of the rule"
    )


def _text(found: "HubPlan", summary: "Summary") -> Iterator[str]:
    yield from summary.lines()
    for edge, why in found.paused.items():
        yield f"edge {edge} is paused {why}; a run reads nothing of it"
    strange = {one.name for one in found.clusters if one.why}
    yield from cluster_lines(found.clusters)
    for edge, why in found.unreachable.items():
        if edge not in strange:
            yield f"edge {edge} does not answer: {why}"
    yield from _problems(found)
    yield from _made(found)
    if found.flows:
        yield ""
        heads = ("edge", "topic", "central", "partitions", "new", "waiting records")
        rows = [(f.edge, f.topic, f.central, f.partitions, f.new, _known(f.waiting_records)) for f in found.flows]
        yield from table(heads, rows)
    yield from _takeovers(found)
    yield from drift_lines(found.drifts)
    yield from _fields(found)


def _takeovers(found: "HubPlan") -> Iterator[str]:
    """The starts of flows that continue from MirrorMaker 2, and the records that central may have already."""
    if not found.takeovers:
        return
    yield ""
    rows = [(one.edge, one.topic, one.partition, _known(one.position), one.note) for one in found.takeovers]
    yield from table(("edge", "topic", "partition", "after MirrorMaker 2", "note"), rows)
    taken = [one for one in found.takeovers if one.position is not None]
    for edge in sorted({one.edge for one in taken if not one.exactly_once}):
        yield (
            f"edge {edge}: MirrorMaker 2 ran at least once. What it copied behind its last commit comes again: nothing"
            " if it was stopped in order, else what it copied in its last offset.flush.interval.ms (60 s by default)"
        )
    for edge in sorted({one.edge for one in taken if one.exactly_once}):
        yield f"edge {edge}: MirrorMaker 2 ran exactly once: nothing of what it copied comes again"


def _known(count: int | None) -> int | str:
    return "unknown" if count is None else count


def _problems(found: "HubPlan") -> Iterator[str]:
    """The partitions that are held, one line for each reason, and the flows that produce dead letters."""
    for flow in found.flows:
        reasons: dict[str, list[str]] = defaultdict(list)
        for one in flow.held:
            place, _, why = one.partition(": ")
            reasons[why].append(place)
        for why, places in reasons.items():
            yield from f"held: {format_first(places, 1)}: {why}".split("\n")
        if flow.dead:
            yield f"dead letters: {flow.edge}/{flow.topic}: {flow.dead}"
        if flow.some_dead:
            yield f"some dead letters: {flow.edge}/{flow.topic}: {flow.some_dead}"


def _made(found: "HubPlan") -> Iterator[str]:
    """The planned creations and refusals; unchanged topics are only counted."""
    from aggregator.plan.actions import NOTHING

    topics = [one for one in found.topics if one.action != NOTHING]
    if topics:
        yield ""
        made = [
            (one.cluster, one.topic, one.action, one.partitions, " ".join(f"{k}={v}" for k, v in one.settings.items()))
            for one in topics
        ]
        yield from table(("cluster", "topic", "action", "partitions", "settings"), made)
    if len(topics) < len(found.topics):
        yield f"unchanged: {format_count(len(found.topics) - len(topics), 'topic')}"
    for name in sorted({name for one in found.topics for name in one.left_out}):
        count = sum(name in one.left_out for one in found.topics)
        yield f"left out of {format_count(count, 'topic')}: {name}, which central does not know and does not need"
    if found.schemas:
        yield ""
        rows = [(one.subject, one.writer, one.edge, one.action, in_one_line(one.detail)) for one in found.schemas]
        yield from table(("subject", "of", "edge", "action", "why"), rows)
    if found.tables:
        yield ""
        tables = [(one.table, one.action, ", ".join(one.columns), in_one_line(one.detail)) for one in found.tables]
        yield from table(("lake table", "action", "columns", "why"), tables)


def _fields(found: "HubPlan") -> Iterator[str]:
    """One table per topic; edges that treat its fields alike share a table."""
    from aggregator.plan.selection import folded

    for one in folded(found.fields):
        yield ""
        yield f"{', '.join(one.edges)}: {one.topic} -> {', '.join(one.centrals)}"
        rows = [
            (row.path, row.type, ",".join(row.tags), row.operator, row.privacy_class, row.because) for row in one.fields
        ]
        yield from table(("path", "type", "tags", "operator", "class", "because"), rows)
