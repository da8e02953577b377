"""From a position at central to one at the edge: by the flow's next record, and every reason why there is none."""

import pytest

from aggregator.coordinates import EdgePartition, Position
from aggregator.offsets.failback import Failback, failback
from aggregator.offsets.search import Placed, SearchWindow
from aggregator.offsets.translation import Why
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

ASKED = Failback(EdgePartition("eu", "orders", 1), ("eu.orders", 1), 70)
ENTRY = LedgerRecord(1, "id-1", 100, 3, 0)
NEXT = Placed(72, Position(1, 41))


@pytest.mark.parametrize(
    ("seen", "decided", "offset", "why"),
    [
        (SearchWindow(70, 80, (NEXT, Placed(75, Position(1, 44)))), True, 41, None),
        (SearchWindow(70, 80, (NEXT,)), False, 41, None),
        (SearchWindow(70, 90), True, 100, None),
        (SearchWindow(90, 90), True, 100, None),
        (SearchWindow(70, 90), False, None, Why.UNDECIDED),
        (SearchWindow(70, 80), True, None, Why.UNREAD),
        (SearchWindow(70, 90, trouble="nothing came"), True, None, Why.UNREAD),
        (SearchWindow(70, 80, (Placed(72, Position(0, 41)),)), True, None, Why.RECREATED),
    ],
)
def test_the_next_record_of_the_flow_decides(seen, decided, offset, why):
    """Its own offset; where none follows, where the hub itself stands; nothing where that cannot be said."""
    found = failback(ASKED, seen, ENTRY, end=90, decided=decided)
    assert (found.edge_offset, found.why) == (offset, why)
    assert bool(found.detail) is (why is not None)
    assert found.plain() | {"detail": ""} == {
        "topic": "orders",
        "partition": 1,
        "edge_offset": offset,
        "central_topic": "eu.orders",
        "central_partition": 1,
        "central_offset": 70,
        "reason": why and why.value,
        "detail": "",
    }


@pytest.mark.parametrize(
    ("seen", "cut", "offset", "why"),
    [
        (SearchWindow(70, 90), 60, None, Why.GAP),
        (SearchWindow(70, 90, (Placed(72, Position(1, 61)),)), 60, None, Why.GAP),
        (SearchWindow(70, 90, (Placed(72, Position(1, 60)),)), 60, 60, None),
        (SearchWindow(70, 90, (NEXT,)), 60, 41, None),
    ],
)
def test_behind_a_cut_that_nobody_has_decided_about_there_is_no_position(seen, cut, offset, why):
    """The edge's log has other records there by now, or none: what is before the cut is as it was."""
    entry = LedgerRecord(1, "id-1", 100, 3, 0, gap=Gap(GapKind.TRUNCATED, cut, None, 1))
    found = failback(ASKED, seen, entry, end=90, decided=True)
    assert (found.edge_offset, found.why) == (offset, why)
