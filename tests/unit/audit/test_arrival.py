"""How far the hub must have read before a table can be complete."""

import pytest

from aggregator.audit.arrival import TargetPosition, not_read
from aggregator.coordinates import EdgePartition
from aggregator.state.gap import Gap, GapKind
from aggregator.state.ledger import LedgerRecord

FLOW, OTHER = EdgePartition("eu", "orders", 0), EdgePartition("us", "orders", 3)
GAP = Gap(GapKind.EXPIRED, 5, 9, 7)


def stood(offset, topic_id="a", gap=None):
    return LedgerRecord(incarnation=0, topic_id=topic_id, next_offset=offset, epoch=1, slot=0, gap=gap)


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (stood(10), []),
        (stood(11), []),
        (stood(9), ["eu/orders/0 stands at 9 of 10"]),
        (stood(5, gap=GAP), ["eu/orders/0 stands at 5 of 10 (expired at 5: it waits for a decision)"]),
        (stood(10, gap=Gap(GapKind.EXPIRED, 10, 12, 7)), []),
        (stood(30, topic_id="of its former life"), ["eu/orders/0 stands at 0 of 10"]),
        (None, ["eu/orders/0 stands at 0 of 10"]),
    ],
)
def test_what_the_hub_has_not_read_is_named(entry, said):
    """By its own position: neither another life of the topic nor another flow counts for it."""
    ledger = {OTHER: stood(99)} | ({FLOW: entry} if entry else {})
    wanted = {FLOW: TargetPosition("a", 10), OTHER: TargetPosition("a", 99)}
    assert [str(one) for one in not_read(wanted, ledger)] == said
