"""Formats a hub's status as lines of text: edges, flows, what needs a person, and the lake.

Invariant: pure. A heading appears only if it has entries.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from aggregator.cli.terminal.output import cluster_lines, drift_lines, table
from aggregator.count_text import format_count, format_first
from aggregator.errors import NEXT
from aggregator.observe.formatting import ago, per_second, share, size

if TYPE_CHECKING:
    from aggregator.lake.status import TableStatus
    from aggregator.observe.gaps import KnownGap
    from aggregator.observe.hub_status import FlowStatus, HubStatus

_MAX_NAMED = 10


def status_lines(
    seen: "HubStatus", *, partitions: bool = False, problems: bool = False, dead: Mapping[str, int] | None = None
) -> Iterator[str]:
    """The lines of a status for a terminal.

    Args:
        seen: The chosen part of a status.
        partitions: A line for each partition, instead of one for each topic.
        problems: Whether only problems were chosen.
        dead: Dead letters by edge, where they are not to be told with the edges.
    """
    if seen.unread:
        yield f"what the hub keeps at central cannot be read, so that no flow is known: {seen.unread}"
        yield ""
    elif not seen.watched:
        yield "no hub watches these edges: states are those of this one look, reasons those that a hub told last"
        yield ""
    stands = seen.edges or seen.flows or seen.lake or seen.refused or seen.gaps or seen.clusters or seen.objections
    if problems and not stands:
        yield "no problem: edges are UP, and no flow and no table stands still"
        yield ""
    for edge, count in (dead or {}).items():
        letters = format_count(count, "dead letter")
        yield f"{letters} of {edge} since the hub's first start, replayed ones too: aggregator dlq list --edge {edge}"
    yield from _edge_lines(seen) if seen.edges else ()
    yield from _flow_lines(seen) if partitions else _topic_lines(seen)
    yield from _next_lines(seen)
    yield from _origin_lines(seen)
    yield from _waiting_lines(seen)
    yield from _refused_lines(seen)
    yield from _unruled_lines(seen)
    yield from _objection_lines(seen)
    yield from _thread_lines(seen)
    yield from _waiver_lines(seen)
    yield from cluster_lines(seen.clusters)
    yield from drift_lines(seen.drifts)
    yield from _group_lines(seen)
    if seen.lake:
        yield ""
        yield from _tables(seen)


def _edge_lines(seen: "HubStatus") -> Iterator[str]:
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


def _flow_lines(seen: "HubStatus") -> list[str]:
    if not seen.flows:
        return []
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

    if not seen.flows:
        return []
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
    """The remedies for edges that are not well and for held flows, one line for those that need the same remedy."""
    from aggregator.replicate.flow.gaps import accept_command

    edges = dict.fromkeys(str(one.remedy) for one in seen.edges if one.remedy)
    hints = dict.fromkeys(flow.trouble.partition(NEXT)[2] for flow in seen.flows if not flow.gap)
    lost = dict.fromkeys(
        f"{accept_command(flow.edge, flow.topic)} goes on without it" for flow in seen.flows if flow.gap
    )
    told = [f"next: {one}" for one in (*edges, *filter(None, hints), *lost)]
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


def _unruled_lines(seen: "HubStatus") -> Iterator[str]:
    """Topics that nobody has decided about; nothing where there are none."""
    for edge, topics in seen.without_rule.items():
        yield ""
        yield (
            f"{edge}: no rule takes {format_count(len(topics), 'topic')}: {format_first(topics, _MAX_NAMED)};"
            " give them one, or name them in `exclude:`"
        )


def _objection_lines(seen: "HubStatus") -> Iterator[str]:
    """The reasons why the hub rejected changed policies; empty if it applies those of its files."""
    if seen.objections:
        yield ""
        yield "the hub goes by its former policies, and refused those that its files hold now:"
        yield from (f"  {one}" for one in seen.objections)
        yield "next: mend the files, or put the former ones back, and send SIGHUP again"


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

    groups: dict[tuple[str, str], list[int | None]] = {}
    for one in seen.groups:
        groups.setdefault((one.group, one.edge), []).append(one.ahead_records)
    if groups:
        yield ""
        yield from table(
            ("group", "of edge", "partitions", "records ahead at central"),
            [(group, edge, len(ahead), known(ahead, sum)) for (group, edge), ahead in groups.items()],
        )


def _behind(table: "TableStatus", at_ms: int) -> str:
    """How old a reader's view is: what came since the last commit may have come a moment ago."""
    age_ms = table.freshness_ms(at_ms)
    return f"{'≤' if age_ms and not table.held else ''}{ago(age_ms)}"


def _tables(seen: "HubStatus") -> list[str]:
    return table(
        ("lake table", "version", "rows", "lag records", "behind", "verdict", "quarantined", "problem"),
        [
            (
                t.table,
                t.version,
                t.rows,
                t.lag_records,
                _behind(t, seen.at_ms),
                t.verdict or None,
                t.quarantined,
                t.hold_reason,
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
    """The work that waits for a person, or for a backfill to continue."""
    yield from gap_lines(seen.gaps)
    for slot in seen.slots:
        if slot.aborts:
            yield ""
            again = f"{slot.aborts:,} transactions failed and were begun again"
            yield f"slot {slot.slot}: {again}; the last one: {slot.aborted}"
    for one in seen.backfills:
        yield ""
        yield f"backfill {one.plan.id}: {one.behind:,} of {one.offsets:,} offsets; aggregator backfill list"
