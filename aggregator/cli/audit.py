"""`aggregator audit`: checks that every record of the edges is at central and in the lake, exactly once.

Invariant: the command only reads, whether the hub runs or not, and the exit code is the verdict. Times are ISO 8601, or
durations that count back from now.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.arguments import LENGTH, TimeArgument
from aggregator.cli.terminal.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.count_text import format_count, format_first
from aggregator.errors import in_one_line
from aggregator.machine_clock import utc_now_ms
from aggregator.moments import iso

if TYPE_CHECKING:
    from aggregator.audit.decisions import ChainAudit
    from aggregator.audit.findings import Audit, FlowAudit
    from aggregator.audit.omissions import Omission
    from aggregator.audit.tally import AuditFinding
    from aggregator.config.model import HubConfig
    from aggregator.coordinates import OffsetRange

_RANGES_SHOWN = 10
_FLOWS_SHOWN = 5
_HASH_SHOWN = 8


@click.command(
    epilog="""\b
Examples:
  aggregator audit
  aggregator audit --from P1D --wait 2m
  aggregator audit --edge eu --topic orders --from P1D --to 10m -o json
  aggregator audit --decisions

\b
Exit codes: 0 everything that can be compared was compared and is explained; 5 something is missing;
1 something is doubled or unexplained; 4 something was not compared: a table lacks what central has,
a flow is held, an edge did not answer."""
)
@config_option
@click.option("--edge", help="One edge; all by default.")
@click.option("--topic", help="One topic, as the edge calls it.")
@click.option("--partition", type=int, help="One partition.")
@click.option(
    "--from", "since", type=TimeArgument(), metavar="TIME", help="Records from this time on: ISO, or how long ago."
)
@click.option(
    "--to",
    "until",
    type=TimeArgument(),
    metavar="TIME",
    help="Records before this time; by default as far as the hub has read.",
)
@click.option(
    "--wait",
    type=LENGTH,
    metavar="DURATION",
    help="How long to wait for tables to get what is at central; by default two commits of the lake while a hub runs.",
)
@click.option("--decisions", is_flag=True, help="Check the record of who decided what instead, link by link.")
@click.option(
    "--head",
    metavar="NUMBER:HASH",
    default="",
    help="With --decisions: the head that an earlier audit printed, which must still be there.",
)
@output_option
def audit(
    config: Path,
    *,
    decisions: bool,
    head: str,
    edge: str | None,
    topic: str | None,
    partition: int | None,
    since: datetime | None,
    until: datetime | None,
    wait: timedelta | None,
    output: str,
) -> None:
    """Compare edge, central and lake, record by record.

    Every record that the edge still has, up to the hub's committed position, must be at central once, and in the lake
    (a table or its quarantine) once, or be explained: dead letter, suppressed, accepted gap, deleted by central's own
    retention. What was not compared is listed with its reason. While the hub runs its tables are a commit behind, and
    are waited for.
    """
    if decisions or head:
        if any(value is not None for value in (edge, topic, partition, since, until, wait)):
            raise click.UsageError("--decisions speaks of no records: leave --edge, --topic, --from and the like out")
        raise SystemExit(_decisions(load_config(config, os.environ), head, output))
    from aggregator.audit.audit import audit as audited
    from aggregator.audit.findings import Selection

    selection = Selection(edge, topic, partition, since, until)
    wait_s = wait.total_seconds() if wait is not None else None
    answer = audited(load_config(config, os.environ), selection, now_ms=utc_now_ms(), wait_s=wait_s)
    emit(answer.plain(), output, lambda: _text(answer))
    raise SystemExit(answer.exit_code)


_ABOUT_NAMES = (
    "principal: as whom the client signed in, by its own configuration; Kafka tells no client the broker's name"
)


def _decisions(hub: "HubConfig", head: str, output: str) -> int:
    """Check the chain of decisions; the exit code is the verdict."""
    from aggregator.audit.decisions import audit_decisions
    from aggregator.audit.unrecorded_requests import Requested
    from aggregator.backfill.store import read_backfills
    from aggregator.kafka.cluster import topic_settings, topics
    from aggregator.state.decisions import SETTINGS, read_decisions
    from aggregator.state.names import HubNames
    from aggregator.state.request_log import read_releases, read_requests

    names = HubNames(hub.hub)
    # A person's request is recorded before it is made. So the requests are read first, and the record after them.
    requested = Requested(
        read_requests(hub.central, names),
        read_releases(hub.central, names),
        [*read_backfills(hub.central, names).values()],
    )
    records = read_decisions(hub.central, names)
    there = topics.partition_count(hub.central, names.decisions)
    settings = topic_settings.settings(hub.central, [names.decisions])[names.decisions] if there else SETTINGS
    answer = audit_decisions(records, head, requested=requested, settings=settings)
    emit(answer.plain(), output, lambda: _chain(answer))
    return answer.exit_code


def _chain(answer: "ChainAudit") -> Iterator[str]:
    columns = ("number", "when", "decided", "about", "by (claimed)", "principal", "reason")
    rows = [
        (
            one.number,
            iso(one.at_ms),
            one.kind.value,
            one.about,
            one.by,
            one.principal or "not known",
            one.reason,
        )
        for one in answer.links
    ]
    yield from [*table(columns, rows), _ABOUT_NAMES] if rows else ["no decisions"]
    for fault in answer.faults:
        yield f"{fault.kind}: offset {fault.offset}: {fault.note}"
    yield f"head: {answer.head}"
    yield "NOT OK" if answer.faults else "OK"


def _text(answer: "Audit") -> Iterator[str]:
    yield from table(
        ("flow", "from", "to", "not yet", "edge", "dead", "suppressed", "central", "lake", "hash", "verdict"),
        [_row(flow) for flow in answer.flows],
    )
    for flow in answer.flows:
        yield from _flow_lines(flow)
    yield from _final(answer.flows)
    for about, omission in answer.omissions:
        yield _omitted(about, omission)
    for one in answer.unknown_origins:
        where = f"central {one.topic}/{one.partition}, central offsets {_shown(one.offsets)}"
        yield f"unexplained: {where}: their origin is none of this hub's flows"
    if answer.exit_code:
        yield "NOT OK"
    else:
        yield "OK" if answer.is_whole else "OK, but for what was not compared"


def _flow_lines(flow: "FlowAudit") -> Iterator[str]:
    """The lines about one flow: its gaps, its findings and its omissions."""
    for gap in flow.gaps:
        decided = f" by {gap.decision.by} (claimed): {gap.decision.reason}" if gap.decision else ""
        yield f"gap: {flow.source} {gap.gap.kind} {gap.gap}, {gap.state}{decided}"
    for finding in flow.findings:
        yield f"{finding.kind}: {flow.source} {_where(finding)}"
    for restate in flow.restates:
        ranges = _shown([offsets for _, offsets in restate.segments])
        rows = format_count(restate.removed, "row")
        yield f"restated: {flow.source}: {ranges} by backfill {restate.backfill}, {rows} taken out"
    if flow.trouble:
        yield f"not asked: {flow.source}: {in_one_line(flow.trouble)}"
    for omission in flow.omissions:
        if not omission.final:
            yield _omitted(str(flow.source), omission)


def _omitted(about: str, omission: "Omission") -> str:
    """`NOT COMPARED: eu/orders/0 in the lake: offsets 12-14 (3 records): why`."""
    place = "" if omission.place == "flow" else f" {_at(omission.place)}"
    count = "" if omission.records is None else f" ({format_count(omission.records, 'record')})"
    where = f": offsets {_shown(omission.offsets)}{count}" if omission.offsets else count
    return f"NOT COMPARED: {about}{place}{where}: {in_one_line(omission.reason)}"


def _final(flows: Iterable["FlowAudit"]) -> Iterator[str]:
    """The parts that can never be compared, one line for the flows that share a reason."""
    found: dict[tuple[str, str, str], list[tuple[FlowAudit, Omission]]] = {}
    for flow in flows:
        for one in flow.omissions:
            if one.final:
                found.setdefault((one.place, one.kind, one.reason), []).append((flow, one))
    for pairs in found.values():
        if len(pairs) == 1:
            yield _omitted(str(pairs[0][0].source), pairs[0][1])
            continue
        names = format_first([flow.source for flow, _ in pairs], _FLOWS_SHOWN)
        records = sum(one.records or 0 for _, one in pairs)
        yield _omitted(names, replace(pairs[0][1], offsets=(), records=records or None))


def _row(flow: "FlowAudit") -> tuple[object, ...]:
    sums = flow.sums
    if flow.says_nothing:
        return (str(flow.source), *[None] * 9, flow.verdict)
    hashes = {sums.hashes["edge"], sums.hashes["central"]}
    same = f"{sums.hashes['edge']:032x}"[:_HASH_SHOWN] if len(hashes) == 1 else "differs"
    return (
        str(flow.source),
        flow.offsets.start,
        flow.offsets.end,
        flow.not_yet,
        sums.edge,
        sums.dead,
        flow.suppressed,
        sums.central,
        sums.lake if flow.in_lake else None,
        same,
        flow.verdict,
    )


def _where(finding: "AuditFinding") -> str:
    """`at central, incarnation 0: offsets 12-14, 20 (4 records); note`."""
    records = f" ({format_count(finding.records, 'record')})"
    offsets = f": offsets {_shown(finding.offsets)}{records}" if finding.offsets else ""
    note = f"; {finding.note}" if finding.note else ""
    return f"{_at(finding.place)}, incarnation {finding.incarnation}{offsets}{note}"


def _at(place: str) -> str:
    return "in the lake" if place == "lake" else f"at {'the ' * (place == 'edge')}{place}"


def _shown(offsets: Sequence["OffsetRange"]) -> str:
    shown = [f"{one.start}-{one.end - 1}" if len(one) > 1 else str(one.start) for one in offsets]
    return format_first(shown, _RANGES_SHOWN)
