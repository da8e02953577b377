"""The audit: looks at central and in the lake for every record of an edge partition up to its committed position.

Invariant: this module only reads. It uses no counter of the hub except that of suppressed records, of which only the
number is known. The end is the ledger's position. It is read first, so every record before it is at central when the
audit looks there. Later records of a running hub are "not yet". What was not compared is reported with its reason.
"""

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace

from aggregator.audit.backfills import BackfillEffects
from aggregator.audit.comparison import AuditInputs, Comparison
from aggregator.audit.findings import Audit, FlowAudit, Selection, UnknownOrigins
from aggregator.audit.former_topics import FormerTopics
from aggregator.audit.missing_flows import never_begun
from aggregator.audit.omissions import FLOW, LAKE, WAITING, Omission
from aggregator.audit.records import letter_offsets
from aggregator.audit.tally import AuditFinding, ranges_of
from aggregator.backfill.ranges import difference, offset_count
from aggregator.backfill.store import read_backfills
from aggregator.config.lake_model import CURRENT
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import HEARTBEATS, EdgePartition, OffsetRange
from aggregator.lake.cycle.sources import lake_sources
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.observe.status import last_troubles
from aggregator.observe.survey import survey
from aggregator.state.control import Lease
from aggregator.state.control_log import read_control
from aggregator.state.first_run import require_run
from aggregator.state.names import HubNames
from aggregator.state.requests import by_flow

# Added to the interval: the time that a cycle of the lake may take.
_CYCLE_S = 30.0
_NOT_WANTED = Omission(FLOW, "not_wanted", "no rule of the configuration names it any more", final=True)


def audit(config: HubConfig, selection: Selection, *, now_ms: int, wait_s: float | None = None) -> Audit:
    """Compare edges, central and the lake.

    Args:
        config: The hub.
        selection: The flows to audit.
        now_ms: The present; retention at central is judged by it.
        wait_s: How long to wait for tables to get what is at central; by default two of the lake's commits and
            half a minute while a hub holds the lease, and not at all without one.

    Raises:
        Unreachable: central does not answer.
        FatalError: the hub has never run, the ledger or a request is damaged, or a transaction at central stays open.
    """
    names = HubNames(config.hub)
    require_run(config.central, names, names.control)
    control = read_control(config.central, names)
    patient_until = time.monotonic() + (_patience_s(config, control.lease) if wait_s is None else wait_s)
    found = survey(config, now_ms=now_ms)
    effects = BackfillEffects.of(read_backfills(config.central, names).values())
    letters, held = letter_offsets(config.central, names), last_troubles(config, names)
    paused = {edge: pause.sentence for edge, pause in found.pauses.items() if pause.paused}
    held |= {str(source): paused[source.edge] for source in found.ledger if source.edge in paused}
    former = FormerTopics(control.targets)
    inputs = AuditInputs(
        config, found.ledger, by_flow(found.decisions), letters, effects, now_ms, held, patient_until, former
    )
    held_clusters = {one.name: one.why for one in found.clusters if one.why}
    flows: list[FlowAudit] = []
    for (edge, topic), sources in _by_topic(found.ledger, selection).items():
        rule, why = rule_for(config, edge, topic) if edge in config.edges else None, held_clusters.get(edge)
        if why:
            flows += [FlowAudit(one, found.ledger[one].incarnation, trouble=why) for one in sources]
        elif rule is None:
            flows += [FlowAudit(one, found.ledger[one].incarnation, omissions=(_NOT_WANTED,)) for one in sources]
        else:
            flows += Comparison(inputs, rule, edge, topic).run(sources, selection)
    begun = tuple(_with_gaps(flow, tuple(gap for gap in found.gaps if gap.source == flow.source)) for flow in flows)
    silent = [edge for edge, seen in found.edges.items() if seen.logs is None and selection.edge in (None, edge)]
    beside = [
        (f"edge {edge}", Omission(FLOW, "unreachable", held_clusters.get(edge, "the edge does not answer")))
        for edge in silent
    ]
    fresh = never_begun(config, found.ledger, selection, held, skip=silent)
    beside += fresh.troubles
    if not (begun or fresh.flows or beside):
        beside.append(
            ("selection", Omission(FLOW, "nothing", "no flow of this hub is like that: nothing was compared"))
        )
    beside += _current_states(config, found.ledger, selection)
    unknown = [UnknownOrigins(*at, tuple(ranges_of(offsets))) for at, offsets in sorted(inputs.unknown_origins.items())]
    return Audit(config.hub, (*begun, *fresh.flows), tuple(unknown), tuple(beside))


def _patience_s(config: HubConfig, lease: Lease | None) -> float:
    """How long a table may need for what is at central: without a running hub it gets no records."""
    if config.lake is None or lease is None or lease.released:
        return 0.0
    return 2 * config.lake.commit_interval.total_seconds() + _CYCLE_S


def _by_topic(ledger: Iterable[EdgePartition], selection: Selection) -> dict[tuple[str, str], list[EdgePartition]]:
    groups: dict[tuple[str, str], list[EdgePartition]] = defaultdict(list)
    for source in sorted(ledger):
        if source.topic != HEARTBEATS and selection.takes(source):
            groups[source.edge, source.topic].append(source)
    return groups


def _current_states(
    config: HubConfig, ledger: Iterable[EdgePartition], selection: Selection
) -> Iterator[tuple[str, Omission]]:
    """Tables that are worked out of others, and not read here."""
    taken = [source for source in ledger if selection.takes(source) and source.edge in config.edges]
    for table in lake_sources(config, taken) if config.lake else ():
        settings = config.lake.tables.get(table) if config.lake else None
        if settings is not None and settings.current_state:
            why = "it is worked out of its table, and its rows are not compared"
            yield f"table {table}{CURRENT}", Omission(LAKE, "current_state", why, final=True)


def _with_gaps(flow: FlowAudit, gaps: tuple[KnownGap, ...]) -> FlowAudit:
    """An open gap is a loss that nobody has accepted; the others explain. None of their records waits to be read."""
    here = [gap.gap for gap in gaps if gap.position.incarnation == flow.incarnation]
    ends = [OffsetRange(gap.start, gap.end) for gap in here if gap.end is not None]
    omissions, told = list[Omission](), 0
    for one in flow.omissions:
        left = difference(one.offsets, ends) if one.kind in WAITING else one.offsets
        if left != one.offsets:
            told += offset_count(one.offsets) - offset_count(left)
            one = replace(one, offsets=left, records=offset_count(left))  # noqa: PLW2901 - the same, of what is left
        if left or one.kind not in WAITING:
            omissions.append(one)
    lost = tuple(
        AuditFinding(
            "missing",
            "edge",
            gap.position.incarnation,
            () if gap.gap.end is None else (OffsetRange(gap.gap.start, gap.gap.end),),
            f"{gap.gap.kind} {gap.gap}, not accepted by anybody",
        )
        for gap in gaps
        if gap.state is GapState.OPEN
    )
    not_yet = max(0, flow.not_yet - told)
    return replace(flow, gaps=gaps, findings=flow.findings + lost, omissions=tuple(omissions), not_yet=not_yet)
