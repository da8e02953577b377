"""The audit: every record of an edge partition up to its committed position, looked for at central and in the lake.

Invariant: reads only, and believes no counter but the one of suppressed records, which are known by their number alone.
The end is the ledger's position, read first, so that a running hub is never ahead of its audit: what comes after is
"not yet".
"""

from collections import defaultdict
from dataclasses import replace

from aggregator.backfill.store import read_backfills
from aggregator.config.match import rule_for
from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.kafka.names import HEARTBEATS, HubNames
from aggregator.kafka.requests import by_flow
from aggregator.observe.comparison import Books, Comparison
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.observe.late import LateWork
from aggregator.observe.records import letter_offsets
from aggregator.observe.survey import survey
from aggregator.observe.tally import Finding, ranges_of
from aggregator.observe.verdicts import Audit, FlowAudit, Selection, Strangers


def audit(config: HubConfig, selection: Selection, *, now_ms: int) -> Audit:
    """Compare edges, central and the lake.

    Args:
        config: The hub.
        selection: Which flows.
        now_ms: The present; retention at central is judged by it.

    Raises:
        Unreachable: central does not answer.
        Failed: the ledger or a request is damaged, or a transaction at central stays open.
    """
    found = survey(config, now_ms=now_ms)
    ledger, gaps = found.ledger, found.gaps
    late = LateWork.of(read_backfills(config.central, HubNames(config.hub)).values())
    letters = letter_offsets(config.central, HubNames(config.hub))
    groups: dict[tuple[str, str], list[EdgePartition]] = defaultdict(list)
    for source in sorted(ledger):
        if source.edge in config.edges and source.topic != HEARTBEATS and selection.takes(source):
            groups[source.edge, source.topic].append(source)
    books = Books(config, ledger, by_flow(found.decisions), letters, late, now_ms)
    flows: list[FlowAudit] = []
    for (edge, topic), sources in groups.items():
        rule = rule_for(config, edge, topic)
        if rule is not None:
            flows += Comparison(books, rule, edge, topic).run(sources, selection)
    flows = [_with_gaps(flow, tuple(gap for gap in gaps if gap.source == flow.source)) for flow in flows]
    strange = [Strangers(*at, tuple(ranges_of(offsets))) for at, offsets in sorted(books.strangers.items())]
    return Audit(config.hub, tuple(flows), tuple(strange))


def _with_gaps(flow: FlowAudit, gaps: tuple[KnownGap, ...]) -> FlowAudit:
    """An open gap is a loss that nobody has accepted; the others explain."""
    lost = tuple(
        Finding(
            "missing",
            "edge",
            gap.position.incarnation,
            () if gap.gap.end is None else (OffsetRange(gap.gap.start, gap.gap.end),),
            f"{gap.gap.kind} {gap.gap}, not accepted by anybody",
        )
        for gap in gaps
        if gap.state is GapState.OPEN
    )
    return replace(flow, gaps=gaps, findings=flow.findings + lost)
