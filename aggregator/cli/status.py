"""`aggregator status`: edges, flows, dead letters and the lake, once or as they change.

Invariant: reads only; the JSON names are a contract.
"""

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aggregator.cli.terminal.arguments import LENGTH, PATTERN
from aggregator.cli.terminal.missing_rights import tell_lacking
from aggregator.cli.terminal.output import cluster_lines, config_option, drift_lines, emit, output_option, table
from aggregator.config.load import load_config
from aggregator.config.model import HubConfig
from aggregator.errors import NEXT, AggregatorError, Failed, HoldError
from aggregator.observe.formatting import ago, per_second, share, size
from aggregator.threads import Threads

if TYPE_CHECKING:
    from aggregator.observe.gaps import KnownGap
    from aggregator.observe.hub_status import FlowStatus, HubStatus
    from aggregator.observe.monitor import Monitor

_WAIT_S = 5.0


@click.command()
@config_option
@click.option("--edge", default="", help="One edge; all by default.")
@click.option("--topic", type=PATTERN, help="Regular expression on the whole topic name, as edges call it.")
@click.option("--problems", is_flag=True, help="Only what is not well: edges, flows and tables that stand still.")
@click.option("--partitions", is_flag=True, help="A line for each partition; one for each topic by default.")
@click.option("--watch", is_flag=True, help="Show it again whenever it changed, until Ctrl-C.")
@click.option("--exit-when-healthy", is_flag=True, help="Watch until every edge is UP and nothing stands still.")
@click.option("--timeout", type=LENGTH, metavar="DURATION", help="With --exit-when-healthy: give up after this.")
@output_option
def status(
    config: Path,
    *,
    edge: str,
    topic: str | None,
    problems: bool,
    partitions: bool,
    watch: bool,
    exit_when_healthy: bool,
    timeout: timedelta | None,
    output: str,
) -> None:
    """Show edges, flows, lag, dead letters and the lake.

    A problem is an edge that is not UP, a flow or a table that stands still, or another cluster behind a name.
    """
    from aggregator.lake.sources import lake_sources
    from aggregator.observe.selection import Selection

    hub = load_config(config, os.environ)
    if edge and edge not in hub.edges:
        raise Failed(f"no edge {edge} is configured", hint=f"the edges are {', '.join(hub.edges)}")
    if timeout is not None and not exit_when_healthy:
        raise click.UsageError("--timeout needs --exit-when-healthy")
    selection, feeds = Selection(edge, topic, problems), partial(lake_sources, hub)

    def show(seen: "HubStatus") -> None:
        chosen = selection.of(seen, feeds)
        emit(chosen.plain(), output, lambda: _text(chosen, partitions=partitions, problems=problems))

    if watch or exit_when_healthy:
        _watch(hub, show, output, until_healthy=exit_when_healthy, give_up=timeout)
    else:
        _look(hub, show)


def _look(hub: HubConfig, show: "Callable[[HubStatus], None]") -> None:
    """Once; with what can be said where the hub's own topics cannot be read."""
    from aggregator.observe.rights import lacking_rights
    from aggregator.observe.status import hub_status, unread_status

    now_ms, refusal = int(time.time() * 1000), None
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(lacking_rights, hub)
        try:
            seen = hub_status(hub, now_ms=now_ms)
        except AggregatorError as error:
            tell_lacking(asked.result())
            if not any(one.own for one in asked.result()):
                raise
            refusal, seen = error, unread_status(hub, error.message, now_ms=now_ms)
        else:
            tell_lacking(asked.result())
    show(replace(seen, rights=asked.result()))
    if refusal is not None:
        raise refusal


def _watch(
    hub: HubConfig,
    show: "Callable[[HubStatus], None]",
    output: str,
    *,
    until_healthy: bool,
    give_up: timedelta | None,
) -> None:
    """A screen on a terminal; elsewhere one answer per change of a state.

    Raises:
        HoldError: the time is over and the hub is not healthy.
    """
    screen = sys.stdout.isatty() and output == "text"
    before: list[tuple[str, str]] = []
    until_s = time.monotonic() + give_up.total_seconds() if give_up else math.inf
    with monitoring(hub, Threads()) as monitor:
        number = -1
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                patience = ago(round(give_up.total_seconds() * 1000)) if give_up else ""
                raise HoldError(
                    f"the hub was not healthy within {patience}", hint="aggregator status --problems shows what is not"
                )
            taken = monitor.after(number, min(_WAIT_S, left_s))
            if taken is None:
                continue
            number, seen = taken.number, taken.status
            states = [(edge.edge, edge.state) for edge in seen.edges]
            if screen:
                click.clear()
            if screen or states != before:
                show(seen)
            before = states
            if until_healthy and seen.healthy:
                return


@contextmanager
def monitoring(hub: HubConfig, threads: Threads) -> "Iterator[Monitor]":
    """A monitor that only reads, while the block lasts.

    Args:
        hub: Which one.
        threads: Of this process.

    Raises:
        Unreachable: central does not answer.
    """
    from aggregator.observe.monitor import MONITOR_BOUND_S, Monitor

    stop = threading.Event()
    monitor = Monitor(hub, stop, threads, publish=False)
    thread = threads.start("monitor", monitor.run, stop=stop, bound_s=MONITOR_BOUND_S)
    try:
        yield monitor
    finally:
        stop.set()
        thread.join()
        monitor.close()


def _text(seen: "HubStatus", *, partitions: bool = False, problems: bool = False) -> Iterator[str]:
    if seen.unread:
        yield f"what the hub keeps at central cannot be read, so that no flow is known: {seen.unread}"
        yield ""
    elif not seen.watched:
        yield "no hub watches these edges: states are those of this one look"
        yield ""
    if problems and not (seen.edges or seen.flows or seen.lake or seen.refused or seen.gaps or seen.clusters):
        yield "no problem: edges are UP, and no flow and no table stands still"
        yield ""
    yield from table(
        ("edge", "state", "for", "last beat", "lag records", "lag", "keeps", "24h", "dead", "read", "written", "why"),
        [
            (
                e.edge,
                e.state + (" (maintenance)" if e.maintenance else ""),
                ago(None if e.since_ms is None else max(0, seen.at_ms - e.since_ms)),
                ago(e.heartbeat_age_ms),
                e.lag_records,
                ago(e.lag_ms),
                ago(e.retention_margin_ms),
                share(e.availability["24h"].available),
                e.dead,
                f"{size(e.read_bytes)} {per_second(e.read_bytes_per_s)}",
                f"{size(e.written_bytes)} {per_second(e.written_bytes_per_s)}",
                e.reason,
            )
            for e in seen.edges
        ],
    )
    yield ""
    yield from _flow_lines(seen) if partitions else _topic_lines(seen)
    yield from _next_lines(seen)
    yield from _origin_lines(seen)
    yield from _waiting_lines(seen)
    yield from _refused_lines(seen)
    yield from _thread_lines(seen)
    yield from _waiver_lines(seen)
    yield from cluster_lines(seen.clusters)
    yield from drift_lines(seen.drifts)
    yield from _group_lines(seen)
    if seen.lake:
        yield ""
        yield from _tables(seen)


def _flow_lines(seen: "HubStatus") -> list[str]:
    return table(
        ("flow", "next", "end", "lag records", "lag", "edge keeps", "delivered", "dead", "suppressed", "why it stands"),
        [
            (
                str(f.source),
                f.next_offset,
                f.end_offset,
                f.lag_records,
                ago(f.lag_ms),
                ago(f.retention_margin_ms),
                f.delivered,
                f.dead,
                f.suppressed,
                _why(f),
            )
            for f in seen.flows
        ],
    )


def _topic_lines(seen: "HubStatus") -> list[str]:
    """A line for each edge topic; the flow that stands still is named, with how many others do."""
    from aggregator.observe.selection import by_topic

    return table(
        (
            *("topic", "partitions", "lag records", "lag", "edge keeps", "delivered", "dead", "suppressed"),
            "stands still",
        ),
        [
            (
                f"{t.edge}/{t.topic}",
                len(t.flows),
                t.lag_records,
                ago(t.lag_ms),
                ago(t.retention_margin_ms),
                t.delivered,
                t.dead,
                t.suppressed,
                _standing(t.stands),
            )
            for t in by_topic(seen.flows)
        ],
    )


def _next_lines(seen: "HubStatus") -> Iterator[str]:
    """What mends the flows that stand still, once for those that need the same."""
    hints = dict.fromkeys(flow.trouble.partition(NEXT)[2] for flow in seen.flows if not flow.gap)
    lost = dict.fromkeys(
        f'aggregator gaps accept --edge {flow.edge} --topic {flow.topic} --reason "…" goes on without it'
        for flow in seen.flows
        if flow.gap
    )
    told = [f"next: {one}" for one in (*filter(None, hints), *lost)]
    yield from ["", *told] if told else []


def _standing(flows: "Sequence[FlowStatus]") -> str:
    if not flows:
        return ""
    more = f" (and {len(flows) - 1} more)" if len(flows) > 1 else ""
    return f"partition {flows[0].partition}: {_why(flows[0])}{more}"


def _why(flow: "FlowStatus") -> str:
    return f"{flow.gap.kind} {flow.gap}" if flow.gap else flow.trouble.partition("\n")[0]


def _origin_lines(seen: "HubStatus") -> Iterator[str]:
    """Topics in which records said that they had been here; nothing where there are none."""
    from aggregator.observe.selection import by_topic

    rows = [(f"{t.edge}/{t.topic}", t.cycles, t.forged) for t in by_topic(seen.flows) if t.cycles or t.forged]
    if rows:
        yield ""
        yield from table(("records that say they were here", "came back, suppressed", "not theirs, delivered"), rows)


def _refused_lines(seen: "HubStatus") -> Iterator[str]:
    """Flows that no slot got and that have no position yet; those that have one are told with their flow."""
    known = {str(flow.source) for flow in seen.flows}
    rows = [(flow, word, why.partition("\n")[0]) for flow, (word, why) in seen.refused.items() if flow not in known]
    if rows:
        yield ""
        yield from table(("flow that has not begun", "reason", "why"), rows)


def _thread_lines(seen: "HubStatus") -> Iterator[str]:
    """Threads of the hub that are not well, or were not; nothing where there are none."""
    troubled = [one for one in seen.threads if one.restarts or not one.is_well]
    if troubled:
        yield ""
        yield from table(
            ("thread of the hub", "is", "for", "restarts", "last error"),
            [
                (one.name, one.condition.value, ago(max(0, seen.at_ms - one.since_ms)), one.restarts, one.error)
                for one in troubled
            ],
        )


def _waiver_lines(seen: "HubStatus") -> Iterator[str]:
    """Connections that are open; nothing where there are none."""
    if seen.waivers:
        yield ""
        yield from table(("open connection", "setting", "what it does", "reason"), seen.waivers)


def _group_lines(seen: "HubStatus") -> Iterator[str]:
    """Groups of the edges with what central has for them where they would go on; nothing where none are told."""
    from aggregator.observe.hub_status import known

    groups = dict.fromkeys((one.group, one.edge) for one in seen.groups)
    if groups:
        yield ""
        yield from table(
            ("group", "of edge", "partitions", "records ahead at central"),
            [
                (group, edge, len(own), known([one.ahead_records for one in own], sum))
                for group, edge in groups
                if (own := [one for one in seen.groups if (one.group, one.edge) == (group, edge)])
            ],
        )


def _tables(seen: "HubStatus") -> list[str]:
    return table(
        ("lake table", "version", "rows", "lag records", "behind", "verdict", "quarantined", "problem"),
        [
            (
                t.table,
                t.version,
                t.rows,
                t.lag_records,
                ago(t.freshness_ms(seen.at_ms)),
                t.verdict or None,
                t.quarantined,
                t.stands,
            )
            for t in seen.lake
        ],
    )


def gap_lines(gaps: "Sequence[KnownGap]") -> Iterator[str]:
    """A table of gaps below an empty line; nothing where there are none."""
    if gaps:
        yield ""
        rows = [gap.plain() for gap in gaps]
        yield from table(
            ("gap", "kind", "from", "to", "incarnation", "since", "state", "by (claimed)", "reason"),
            [
                (
                    f"{row['edge']}/{row['topic']}/{row['partition']}",
                    row["kind"],
                    row["from"],
                    "unknown" if row["to"] is None else row["to"],
                    row["incarnation"],
                    row["since"],
                    row["state"],
                    row["by"] or "",
                    row["reason"] or "",
                )
                for row in rows
            ],
        )


def _waiting_lines(seen: "HubStatus") -> Iterator[str]:
    """What waits for a person, or for a backfill to go on."""
    yield from gap_lines(seen.gaps)
    for slot in seen.slots:
        if slot.aborts:
            yield ""
            again = f"{slot.aborts:,} transactions failed and were begun again"
            yield f"slot {slot.slot}: {again}; the last one: {slot.aborted}"
    for one in seen.backfills:
        yield ""
        yield f"backfill {one.plan.id}: {one.behind:,} of {one.offsets:,} offsets; aggregator backfill list"
