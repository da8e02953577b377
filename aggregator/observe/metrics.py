"""Converts a snapshot into samples of the measures.

Invariant: pure. Samples are per topic unless partitions are asked for, so that the number of series follows the number
of topics. No label holds any content of a record.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from aggregator import measures as m
from aggregator.edges.availability import AvailabilityState
from aggregator.measures import Sample
from aggregator.observe.gaps import GapState
from aggregator.observe.hub_status import EdgeStatus, FlowStatus, known
from aggregator.observe.snapshot import Snapshot
from aggregator.state.gap import GapKind
from aggregator.threads import ThreadStatus


def samples(seen: Snapshot, *, by_partition: bool, age_s: float) -> Iterator[Sample]:
    """Every sample that a snapshot exposes.

    Args:
        seen: The snapshot.
        by_partition: One series per partition instead of per topic.
        age_s: How old the snapshot is.
    """
    yield m.BUILD.of(1, version("aggregator"), seen.status.hub)
    yield m.SNAPSHOT_AGE.of(age_s)
    yield m.EPOCH.of(seen.epoch + 1)
    for edge in seen.status.edges:
        yield from _edge(edge)
    yield from _flows(seen.status.flows, by_partition=by_partition)
    yield from _losses(seen)
    yield from _fields(seen)
    yield from _slots(seen)
    yield from _lake(seen)
    for topic, count in seen.damaged.items():
        yield m.DAMAGED.of(count, topic)
    identities = seen.status.clusters[1:]  # central is first
    yield from (m.EDGE_FOREIGN_CLUSTER.of(bool(one.why), one.name) for one in identities)
    yield m.POLICIES_REFUSED.of(bool(seen.status.objections))
    for one in seen.status.waivers:
        yield m.INSECURE.of(1, one.connection, one.setting, one.reason)


def of_threads(threads: Iterable[ThreadStatus]) -> Iterator[Sample]:
    """The state of this process's threads; it is exposed also before the first snapshot."""
    for one in threads:
        yield m.THREAD_UP.of(one.is_well, one.name)
        yield m.THREAD_RESTARTS.of(one.restarts, one.name)


def _edge(edge: EdgeStatus) -> Iterator[Sample]:
    for state in AvailabilityState:
        yield m.EDGE_STATE.of(edge.state == state, edge.edge, state.value)
    yield m.EDGE_MAINTENANCE.of(edge.maintenance, edge.edge)
    yield m.GAPS.of(edge.gaps, edge.edge)
    yield m.EDGE_READ.of(edge.read_bytes, edge.edge)
    yield m.EDGE_WRITTEN.of(edge.written_bytes, edge.edge)
    if edge.rate_limit_bytes_per_s is not None:
        yield m.EDGE_LIMIT.of(edge.rate_limit_bytes_per_s, edge.edge)
    for measure, milliseconds in (
        (m.HEARTBEAT_AGE, edge.heartbeat_age_ms),
        (m.HEARTBEAT_LATENCY, edge.latency_ms),
        (m.CLOCK_SKEW, edge.skew_ms),
    ):
        if milliseconds is not None:
            yield measure.of(milliseconds / 1000, edge.edge)
    for window, found in edge.availability.items():
        if found.available is not None and found.burn is not None:
            yield m.AVAILABILITY.of(found.available, edge.edge, window)
            yield m.BURN.of(found.burn, edge.edge, window)


def _flows(flows: Iterable[FlowStatus], *, by_partition: bool) -> Iterator[Sample]:
    places: dict[tuple[str, str, str], list[FlowStatus]] = defaultdict(list)
    for flow in flows:
        places[flow.edge, flow.topic, str(flow.partition) if by_partition else ""].append(flow)
    for place, found in places.items():
        first = found[0] if len(found) == 1 else _sum(found)
        yield m.DELIVERED.of(first.delivered, *place)
        yield m.DEAD.of(first.dead, *place)
        yield m.STRIPPED.of(first.stripped, *place)
        rare = {m.SUPPRESSED: first.suppressed, m.CYCLES: first.cycles, m.FORGED: first.forged}
        yield from (measure.of(count, *place) for measure, count in rare.items() if count)
        if first.lag_records is not None:
            yield m.LAG_RECORDS.of(first.lag_records, *place)
        if first.lag_ms is not None:
            yield m.LAG_SECONDS.of(first.lag_ms / 1000, *place)
        if first.retention_margin_ms is not None:
            yield m.RETENTION_MARGIN.of(first.retention_margin_ms / 1000, *place)
        if first.undecided_records:
            yield m.UNDECIDED_RECORDS.of(first.undecided_records, *place)
        if first.undecided_ms is not None:
            yield m.UNDECIDED_SECONDS.of(first.undecided_ms / 1000, *place)


def _sum(flows: Sequence[FlowStatus]) -> FlowStatus:
    """Sum the flows of a topic up."""
    return replace(
        flows[0],
        delivered=sum(flow.delivered for flow in flows),
        dead=sum(flow.dead for flow in flows),
        suppressed=sum(flow.suppressed for flow in flows),
        stripped=sum(flow.stripped for flow in flows),
        cycles=sum(flow.cycles for flow in flows),
        forged=sum(flow.forged for flow in flows),
        lag_records=known([flow.lag_records for flow in flows], sum),
        lag_ms=known([flow.lag_ms for flow in flows], max),
        retention_margin_ms=known([flow.retention_margin_ms for flow in flows], min),
        undecided_records=known([flow.undecided_records for flow in flows], sum),
        undecided_ms=known([flow.undecided_ms for flow in flows], max),
    )


def _losses(seen: Snapshot) -> Iterator[Sample]:
    for place, count in seen.letters.items():
        yield m.LETTERS.of(count, *place)
    decided: dict[tuple[str, str, str], int] = defaultdict(int)
    for gap in seen.gaps:
        if gap.state in (GapState.ACCEPTED, GapState.SKIPPED) and gap.gap.kind is not GapKind.RECREATED:
            decided[gap.source.edge, gap.source.topic, gap.state.value] += 1
    for place, count in decided.items():
        yield m.GAPS_DECIDED.of(count, *place)


def _fields(seen: Snapshot) -> Iterator[Sample]:
    for (edge, topic), found in seen.fields.items():
        by_operator: dict[str, int] = defaultdict(int)
        for one in found.fields:
            by_operator[one.row.operator] += one.transformed
        for operator, count in by_operator.items():
            if count:
                yield m.OPERATED.of(count, edge, topic, operator)
        yield m.UNCLASSIFIED.of(len({one.row.path for one in found.fields if one.row.unclassified}), edge, topic)


def _slots(seen: Snapshot) -> Iterator[Sample]:
    yield m.SLOTS.of(len(seen.slots))
    for work, slots in (("live", seen.slots), ("backfill", seen.backfilling)):
        for edge in sorted({edge for slot in slots for edge in slot.ages_ms}):
            oldest_ms = max(slot.ages_ms[edge] for slot in slots if edge in slot.ages_ms)
            yield m.RECORD_AGE.of(oldest_ms / 1000, edge, work)
    for slot in seen.slots:
        name = str(slot.slot)
        yield m.TRANSACTIONS.of(slot.transactions, name)
        yield m.ABORTS.of(slot.aborts, name)
        yield m.SLOT_WAITING.of(len(slot.waiting), name)
        yield m.SLOT_MEMORY.of(slot.rss_bytes, name)
        yield m.SLOT_CPU.of(slot.cpu_s, name)
        reasons = Counter(still.reason for still in slot.held.values())
        for reason, flows in sorted(reasons.items()):
            yield m.SLOT_HELD.of(flows, name, reason)
        for client, numbers in slot.clients.items():
            for number, measure in m.CLIENT_NUMBERS.items():
                if number in numbers:
                    yield measure.of(numbers[number], name, client)
    for reason, flows in sorted(Counter(still.reason for still in seen.refused.values()).items()):
        yield m.SLOT_HELD.of(flows, "none", reason)


def _lake(seen: Snapshot) -> Iterator[Sample]:
    for table in seen.status.lake:
        yield m.LAKE_PROBLEM.of(bool(table.problem), table.table)
        yield m.LAKE_LAG.of(table.lag_records, table.table)
        yield m.LAKE_HELD.of(len(table.held), table.table)
        if table.stood_ms is not None:
            yield m.LAKE_STOOD.of(table.stood_ms / 1000, table.table)
        if table.version is not None:
            yield m.LAKE_COMMITS.of(table.version + 1, table.table)
            yield m.LAKE_ROWS.of(table.rows, table.table)
            yield m.LAKE_FILES.of(table.files, table.table)
            yield m.LAKE_BYTES.of(table.size_bytes, table.table)
            yield m.LAKE_QUARANTINED.of(table.quarantined, table.table)
            yield m.LAKE_OUT_OF_RANGE.of(table.out_of_range, table.table)
        if table.verdict:
            yield m.LAKE_QUALITY.of(1, table.table, table.verdict)
        if table.gate:
            yield m.LAKE_GATE_SECONDS.of(table.gate.audit_s, table.table)
            for rule, commits in table.gate.failed.items():
                yield m.LAKE_RULE_FAILURES.of(commits, table.table, rule)
                yield m.LAKE_RULE_VALUES.of(table.gate.unexpected[rule], table.table, rule)
        fresh_ms = table.freshness_ms(seen.at_ms)
        if fresh_ms is not None:
            yield m.LAKE_FRESHNESS.of(fresh_ms / 1000, table.table)
        if table.committed_ms is not None:
            yield m.LAKE_AGE.of(max(0, seen.at_ms - table.committed_ms) / 1000, table.table)
