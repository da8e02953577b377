"""What an audit leaves out: each kind is named, and only what nobody can change leaves the verdict alone."""

import pytest

from aggregator.audit.audit import _with_gaps
from aggregator.audit.findings import Audit, FlowAudit
from aggregator.audit.former_topics import FormerTopics, lacking, with_gone_topics
from aggregator.audit.omissions import LAKE, NO_TABLE, AuditWindow, Omission, at_central, at_edge, in_table
from aggregator.audit.tally import AuditFinding, Sums
from aggregator.cli.audit import _final
from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.state.control import Target
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

FLOW = EdgePartition("eu", "orders", 0)
ALL = OffsetRange(0, 2**62)
SEGMENT = IncarnationRange(0, OffsetRange(0, 50))
BEHIND = Omission(LAKE, "behind", "")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (AuditWindow(OffsetRange(0, 50), ALL), []),
        (AuditWindow(OffsetRange(0, 60), ALL), [("not_read", (50, 60), True)]),
        (AuditWindow(OffsetRange(0, 60), ALL, bounded=True), [("not_read", (50, 60), False)]),
        (AuditWindow(OffsetRange(0, 60), OffsetRange(0, 50), bounded=True), []),
        (AuditWindow(OffsetRange(0, 60), ALL, held="why"), [("held", (50, 60), False)]),
        (AuditWindow(OffsetRange(20, 50), ALL), [("gone", (0, 20), True)]),
        (AuditWindow(OffsetRange(20, 50), OffsetRange(20, 2**62)), []),
        (AuditWindow(OffsetRange(20, 50), OffsetRange(30, 40), bounded=True), []),
        (AuditWindow(OffsetRange(70, 90), ALL), [("gone", (0, 50), True), ("not_read", (50, 90), True)]),
    ],
)
def test_what_the_edge_does_not_tell(asked, expected):
    """What is gone is final; what waits is not, once somebody named an end or the hub says why it stands still."""
    found = at_edge(asked, LedgerRecord(0, "id", 50, 0, 0), [SEGMENT])
    assert [(one.kind, *map(tuple, one.offsets), one.final) for one in found] == expected


@pytest.mark.parametrize("state", list(GapState))
@pytest.mark.parametrize(
    ("gap", "waiting"),
    [
        (Gap(GapKind.EXPIRED, 50, 70, 0), [(70, 90)]),
        (Gap(GapKind.DAMAGED, 50, 60, 0), [(60, 90)]),
        (Gap(GapKind.DAMAGED, 60, 70, 0), [(50, 60), (70, 90)]),
        (Gap(GapKind.EXPIRED, 50, 90, 0), []),
        (Gap(GapKind.TRUNCATED, 50, None, 0), [(50, 90)]),
    ],
)
def test_what_lies_in_a_gap_does_not_wait(gap, waiting, state):
    """It is missing at the edge already, and is told once, whether the hub has met the gap or not; totals add up."""
    entry = LedgerRecord(0, "id", 50, 0, 0)
    waits = at_edge(AuditWindow(OffsetRange(0, 90), OffsetRange(50, 2**62), held="a gap"), entry, [SEGMENT])
    flow = FlowAudit(FLOW, 0, not_yet=40, omissions=(*waits, NO_TABLE))
    found = _with_gaps(flow, (KnownGap(FLOW, Position(0, 50), gap, state),))
    held = [one for one in found.omissions if one.kind == "held"]
    assert [tuple(each) for one in held for each in one.offsets] == waiting
    assert sum(one.records for one in held) == found.not_yet == sum(end - start for start, end in waiting)
    assert NO_TABLE in found.omissions
    former = _with_gaps(flow, (KnownGap(FLOW, Position(1, 50), gap, state),))
    assert former.omissions == flow.omissions, "offsets of another life of the topic are other records"


def test_flows_share_a_line_only_with_their_reason():
    """What is said of one flow's former topic is not said of another's."""
    eu, us, ap = (EdgePartition(edge, "orders", 0) for edge in ("eu", "us", "ap"))
    flows = [
        FlowAudit(source, 0, omissions=(lacking("orders", (f"{source.edge}.orders", 0), None), NO_TABLE))
        for source in (eu, us, ap)
    ]
    lines = list(_final(flows))
    for source in (eu, us, ap):
        assert sum(f"{source} in the lake: they lie in {source.edge}.orders" in line for line in lines) == 1, lines
    assert len(lines) == 4


def test_a_former_topic_that_is_gone_is_told_beside_what_is_missing():
    """Whoever began a new generation and removed the old topic is not left with a loss that is none."""
    lost = AuditFinding("missing", "central", 0, (OffsetRange(0, 9),))
    found = FlowAudit(
        FLOW, 0, findings=(lost, AuditFinding("missing", "edge", 0, ()), AuditFinding("doubled", "central", 0, ()))
    )
    written = [Target("eu", "orders", "eu.orders"), Target("eu", "orders", "eu.orders.v2"), Target("us", "orders", "o")]
    former = FormerTopics(written)
    assert former.of("eu", "orders", "eu.orders.v2") == ["eu.orders"]
    assert (former.into("eu.orders"), former.into("o")) == ({("eu", "orders")}, {("us", "orders")})
    told = with_gone_topics(found, ["eu.orders"])
    assert [bool(one.note) for one in told.findings] == [True, False, False]
    assert told.findings[0].note.startswith("eu.orders, where this flow was written before, is no more at central: ")
    assert with_gone_topics(found, []) == found
    assert told.verdict == "missing"


def test_what_a_table_has_not_got_of_a_former_topic_is_final_only_where_it_never_took_from_there():
    """A table of the new generation begins with it; one that fed on both has to have all."""
    at = ("eu.orders", 0)
    assert [lacking("orders", at, position).final for position in (None, 7)] == [True, False]


def test_a_former_life_of_a_topic_is_told():
    """Its records may be at central and in the lake; nobody has compared them."""
    (found,) = at_edge(
        AuditWindow(OffsetRange(0, 50), ALL), LedgerRecord(2, "id", 50, 0, 0), [IncarnationRange(2, OffsetRange(0, 50))]
    )
    assert (found.kind, found.final) == ("former_life", True)


def test_what_central_forgot_is_told_unless_the_lake_tells():
    """Expired records are looked for in the lake, where there is one."""
    sums = Sums(expired=3, compacted=2, never_read=1)
    assert [(one.kind, one.records) for one in at_central(sums, 4, in_lake=False)] == [
        ("expired", 3),
        ("compacted", 2),
        ("suppressed", 4),
        ("never_read", 1),
    ]
    assert "expired" not in {one.kind for one in at_central(sums, 4, in_lake=True)}


def test_what_a_table_cannot_be_told_of_is_named():
    """What is explained by a number alone may hide others that are as many."""
    sums = Sums(compacted=2, restated=5)
    assert [(one.place, one.kind, one.records, one.final) for one in in_table(sums)] == [
        (LAKE, "compacted", 2, True),
        (LAKE, "restated", 5, True),
    ]
    assert in_table(Sums()) == []


@pytest.mark.parametrize(
    ("flow", "verdict", "lake", "code"),
    [
        ({"in_lake": True}, "ok", "equal", 0),
        ({"in_lake": True, "omissions": (Omission(LAKE, "restated", "", (), 5, final=True),)}, "ok", "not compared", 0),
        ({"in_lake": True, "omissions": in_table(Sums(restated=5)), "sums": Sums(lake=9)}, "ok", "equal", 0),
        ({"omissions": (NO_TABLE,)}, "ok", "not compared", 0),
        ({"in_lake": True, "omissions": (BEHIND,)}, "not compared", "not compared", 4),
        ({"in_lake": True, "trouble": "away"}, "not asked", "not compared", 4),
        (
            {"in_lake": True, "omissions": (BEHIND,), "findings": (AuditFinding("missing", "lake", 0, ()),)},
            "missing",
            "missing",
            5,
        ),
        (
            {"in_lake": True, "omissions": (BEHIND,), "findings": (AuditFinding("doubled", "central", 0, ()),)},
            "doubled",
            "not compared",
            1,
        ),
        (
            {"offsets": OffsetRange(9, 9), "in_lake": True, "omissions": (Omission("edge", "gone", "", final=True),)},
            "not compared",
            "not compared",
            4,
        ),
        ({"offsets": OffsetRange(9, 9), "omissions": (NO_TABLE,)}, "ok", "not compared", 0),
    ],
)
def test_verdict_part_and_exit_code(flow, verdict, lake, code):
    """Equal is only what was compared; loss outranks a fault, and a fault what was left out."""
    told = FlowAudit(FLOW, 0, **({"offsets": OffsetRange(0, 9)} | flow))
    assert (told.verdict, told.part("lake"), Audit("h", (told,), ()).exit_code) == (verdict, lake, code)


def test_one_flow_that_was_compared_makes_the_others_final_omissions_no_failure():
    """Nothing beside them would: then nothing was compared at all."""
    gone = FlowAudit(FLOW, 0, OffsetRange(9, 9), omissions=(Omission("edge", "gone", "", final=True),))
    whole = FlowAudit(FLOW, 0, OffsetRange(0, 9), in_lake=True)
    assert (Audit("h", (gone, whole), ()).exit_code, Audit("h", (gone,), ()).exit_code) == (0, 4)
    assert not Audit("h", (gone, whole), ()).is_whole
    assert Audit("h", (whole,), (), (("edge us", Omission("flow", "unreachable", "")),)).exit_code == 4
