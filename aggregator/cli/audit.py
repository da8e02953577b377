"""`aggregator audit`: is everything that the edges have at central and in the lake, once?

Invariant: reads only, while the hub runs or not; the exit code is the verdict. Times are ISO 8601, or durations that
count back from now.
"""

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.output import config_option, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.config.units import duration, start_position

if TYPE_CHECKING:
    from aggregator.observe.tally import Finding
    from aggregator.observe.verdicts import Audit, FlowAudit

_RANGES_SHOWN = 10
_HASH_SHOWN = 8


class Moment(click.ParamType[datetime]):
    """An ISO 8601 time, or a duration before now."""

    name = "time"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read one.

        Raises:
            click.BadParameter: it is neither.
        """
        if isinstance(value, datetime):
            return value
        try:
            return datetime.now(UTC) - duration(value)
        except ValueError:
            pass
        try:
            found = start_position(value)
        except ValueError:
            found = None
        if not isinstance(found, datetime):
            self.fail("is an ISO 8601 time, or how long ago, as 2h or P1D", param, ctx)
        return found


@click.command(
    epilog="""\b
Examples:
  aggregator audit
  aggregator audit --edge eu --topic orders --from P1D -o json

\b
Exit codes: 0 everything is explained, 5 something is missing, 1 something is doubled or unexplained,
4 an edge could not be asked."""
)
@config_option
@click.option("--edge", help="One edge; all by default.")
@click.option("--topic", help="One topic, as the edge calls it.")
@click.option("--partition", type=int, help="One partition.")
@click.option("--from", "since", type=Moment(), metavar="TIME", help="Records from this time on: ISO, or how long ago.")
@click.option("--to", "until", type=Moment(), metavar="TIME", help="Records before this time.")
@output_option
def audit(
    config: Path,
    *,
    edge: str | None,
    topic: str | None,
    partition: int | None,
    since: datetime | None,
    until: datetime | None,
    output: str,
) -> None:
    """Compare edge, central and lake, record by record.

    Every record that the edge still has, up to the hub's committed position, must be at central once, and in the lake
    once, or be explained: dead letter, suppressed, accepted gap, deleted by central's own retention.
    """
    from aggregator.observe.audit import audit as audited  # noqa: PLC0415 - `--help` needs none of its imports
    from aggregator.observe.verdicts import Selection  # noqa: PLC0415

    selection = Selection(edge, topic, partition, since, until)
    answer = audited(load_config(config, os.environ), selection, now_ms=int(time.time() * 1000))
    emit(answer.plain(), output, lambda: _text(answer))
    raise SystemExit(answer.exit_code)


def _text(answer: "Audit") -> Iterator[str]:
    yield from table(
        ("flow", "from", "to", "not yet", "edge", "dead", "suppressed", "central", "lake", "hash", "verdict"),
        [_row(flow) for flow in answer.flows],
    )
    for flow in answer.flows:
        for gap in flow.gaps:
            decided = f" by {gap.decision.by}: {gap.decision.reason}" if gap.decision else ""
            yield f"gap: {flow.source} {gap.gap.kind} {gap.gap}, {gap.state}{decided}"
        for finding in flow.findings:
            yield f"{finding.kind}: {flow.source} {_where(finding)}"
        if flow.suppressed:
            yield f"suppressed: {flow.source}: {flow.suppressed} absent records are explained by their number only"
        for restate in flow.restates:
            ranges = ", ".join(f"{start}-{end - 1}" for _, (start, end) in restate.segments[:_RANGES_SHOWN])
            yield f"restated: {flow.source}: {ranges} by backfill {restate.backfill}, {restate.removed} rows taken out"
        if flow.sums.never_read:
            what = f"{flow.sums.never_read} records lie before its start, or behind a gap that came back"
            yield f"never read: {flow.source}: {what}; aggregator backfill plan shows them"
        if flow.sums.expired or flow.sums.compacted:
            gone = f"{flow.sums.expired} expired, {flow.sums.compacted} compacted"
            yield f"central's own cleanup: {flow.source}: {gone}; whether they had arrived can not be told any more"
        if flow.trouble:
            yield f"not asked: {flow.source}: {flow.trouble}"
    for one in answer.strangers:
        shown = ", ".join(f"{each.start}-{each.end - 1}" for each in one.offsets[:_RANGES_SHOWN])
        where = f"central {one.topic}/{one.partition}, central offsets {shown}"
        yield f"unexplained: {where}: their origin is none of this hub's flows"
    yield "OK" if answer.exit_code == 0 else "NOT OK"


def _row(flow: "FlowAudit") -> tuple[object, ...]:
    sums = flow.sums
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


def _where(finding: "Finding") -> str:
    """`central, incarnation 0: offsets 12-14, 20 (4 records); note`."""
    shown = [f"{one.start}-{one.end - 1}" if len(one) > 1 else str(one.start) for one in finding.offsets]
    more = f" and {len(shown) - _RANGES_SHOWN} more ranges" if len(shown) > _RANGES_SHOWN else ""
    offsets = f": offsets {', '.join(shown[:_RANGES_SHOWN])}{more} ({finding.records} records)" if shown else ""
    note = f"; {finding.note}" if finding.note else ""
    place = "in the lake" if finding.place == "lake" else f"at {'the ' * (finding.place == 'edge')}{finding.place}"
    return f"{place}, incarnation {finding.incarnation}{offsets}{note}"
