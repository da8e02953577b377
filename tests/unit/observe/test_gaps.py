"""Gaps as a person sees them, and what a running hub warns of."""

from aggregator.audit.findings import Audit, FlowAudit, UnknownOrigins
from aggregator.audit.tally import AuditFinding
from aggregator.coordinates import EdgePartition, OffsetRange, Position
from aggregator.observe.edge_logs import EdgeLogs, UndecidedOffsets, gap_of
from aggregator.observe.gaps import known_gaps, unsettled
from aggregator.observe.warnings import warnings
from aggregator.replicate.discovery.retention import Margin
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from tests.unit.replicate.plan_inputs import CONFIG, FLOW

HOUR = 3_600_000
LOST = Gap(GapKind.EXPIRED, 10, 15, 1000)


def entry(offset=10, gap=None, incarnation=0) -> LedgerRecord:
    return LedgerRecord(incarnation, "id-1", offset, 0, 0, gap=gap)


def decided(lost=LOST, **more) -> GapDecision:
    return GapDecision(FLOW, Position(0, 10), lost, "ada", 2000, "known", **more)


def states(ledger_entry, gaps, *decisions) -> list[tuple[int | None, str]]:
    return [(one.gap.end, one.state.value) for one in known_gaps({FLOW: ledger_entry}, gaps, decisions)]


def test_a_gap_is_listed_once_and_for_ever():
    """Open, then requested, then accepted; one that a rule let pass is skipped; a grown one is open again."""
    wider = Gap(GapKind.EXPIRED, 10, 18, 1000)
    assert states(entry(gap=LOST), {FLOW: LOST}) == [(15, "open")]
    assert states(entry(gap=LOST), {FLOW: LOST}, decided()) == [(15, "requested")]
    assert states(entry(15), {}, decided()) == [(15, "accepted")]
    assert states(entry(15), {}, decided(automatic=True)) == [(15, "skipped")]
    assert sorted(states(entry(gap=LOST), {FLOW: wider}, decided())) == [(15, "requested"), (18, "open")]
    batch, other = Gap(GapKind.DAMAGED, 10, 15, 1000, 3), Gap(GapKind.DAMAGED, 10, 15, 2000, 5)
    assert states(entry(gap=other), {FLOW: other}, decided(batch)) == [(15, "requested"), (15, "open")]
    gone = Gap(GapKind.DELETED, 10, None, 1000)
    assert states(entry(gap=gone), {FLOW: gone}, decided(gone)) == [(None, "accepted")]


def test_an_edge_tells_of_gaps_before_the_hub_has_met_them():
    """Grown, new, deleted, back again; offsets of a recreated topic, or a silent edge, say nothing."""

    def at(recorded, *log, **seen):
        shown = EdgeLogs(ranges={FLOW: OffsetRange(*log)} if log else {}, **seen)
        found = gap_of(CONFIG, FLOW, entry(gap=recorded), shown, now_ms=5000)
        return found and (found.kind.value, found.start, found.end, found.since_ms)

    assert at(None, 0, 30) is None
    assert at(None, 15, 30) == ("expired", 10, 15, 5000)
    assert at(LOST, 18, 30) == ("expired", 10, 18, 1000)
    assert at(None, 0, 4) == ("truncated", 4, None, 5000)
    assert at(None, 0, 4, undecided={FLOW: UndecidedOffsets(6, 0)}) is None, "an open transaction is no cut"
    assert at(None, 0, 4, undecided={FLOW: UndecidedOffsets(5, 0)}) == ("truncated", 9, None, 5000)
    cut = Gap(GapKind.TRUNCATED, 4, None, 1000)
    assert at(cut, 0, 30) == ("truncated", 4, None, 1000), "it has grown again: what was cut stays lost"
    assert at(None) == ("deleted", 10, None, 5000)
    assert at(Gap(GapKind.DELETED, 10, None, 1000), 0, 30) is None
    assert at(None, recreated=frozenset({FLOW})) is None
    assert gap_of(CONFIG, FLOW, entry(gap=LOST), None, now_ms=5000) == LOST
    unwanted = EdgePartition("eu", "other", 0)
    assert gap_of(CONFIG, unwanted, entry(), EdgeLogs(), now_ms=5000) is None


def test_a_running_hub_warns_in_time_and_of_what_is_held():
    """A short margin and an open gap are each one sentence; a wide margin is none."""
    other = EdgePartition("eu", "orders", 1)
    seen = {"eu": EdgeLogs(margins={FLOW: Margin(HOUR // 2, 24 * HOUR), other: Margin(20 * HOUR, 24 * HOUR)})}
    held = list(unsettled(known_gaps({FLOW: entry(gap=LOST)}, {FLOW: LOST}, [])))
    found = warnings(seen, held, {}, warning_ms=HOUR)
    assert sorted(line.split(":")[0] for line in found.values()) == [str(FLOW), f"{FLOW} is held"]
    assert any("1800 s" in line for line in found.values())


def test_the_worst_verdict_is_the_exit_code():
    """5 for missing before 1 for doubled, unexplained or a stranger, before 4 for what was not asked."""

    def flow(*kinds, trouble=""):
        return FlowAudit(
            FLOW, 0, findings=tuple(AuditFinding(kind, "central", 0, ()) for kind in kinds), trouble=trouble
        )

    stranger = UnknownOrigins("eu.orders", 0, (OffsetRange(3, 4),))
    assert Audit("h", (flow(),), ()).exit_code == 0
    assert Audit("h", (flow(), flow(trouble="away")), ()).exit_code == 4
    assert Audit("h", (flow("doubled"), flow(trouble="away")), ()).exit_code == 1
    assert Audit("h", (flow("unexplained"),), ()).exit_code == 1
    assert Audit("h", (flow(),), (stranger,)).exit_code == 1
    assert Audit("h", (flow("doubled", "missing"),), ()).exit_code == 5
