"""Compacted topics take no record without a key: what becomes of those that have none, or that would lose theirs."""

import json

import pytest

from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.kafka.chunk import Chunk
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.cycles import Cycles
from aggregator.replicate.delivery import Delivery, DeliveryPlan
from aggregator.replicate.flow import Flow, FlowPlan
from aggregator.replicate.limits import Limits
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord
from tests.reference.reference import ReferenceStrip
from tests.unit.replicate.test_planning import CONFIG, FLOW, SETTINGS, SNAPSHOTS, plan_flows

COMPACTED = FlowPlan(
    EdgePartition("eu", "orders", 0),
    LedgerRecord(0, "id", 0, 1, 0),
    fresh=False,
    central="eu.orders",
    by_key=False,
    limits=Limits(10_000, keyed=True),
)
POLICY = "policy: p\nversion: 1\ntags: {PII: drop}\ntopics: {orders: {key: keep, fields: {'**': keep}}}\n"


class _Log:
    """A transaction in memory."""

    def __init__(self):
        self.keys, self.reasons = [], []

    def produce_all(self, _topic, _partition, records):
        """Whole records."""
        self.keys += [key for key, *_ in records]

    def produce(self, _topic, _key, value, **_more):
        """One dead letter."""
        self.reasons.append(json.loads(value)["reason"])


def _delivered(plan, tags, keys, times=None):
    """Deliver tombstones with these keys, numbers framed under a schema with these tags."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    schema_id = edge.register("orders-key", json.dumps({"type": "int", "confluent:tags": tags}))
    contents = [None if key is None else frame(schema_id, bytes([2 * key])) for key in keys]
    strip = ReferenceStrip(
        policy=parse_policy(POLICY), edge_topic="orders", central_topic="eu.orders",
        edge_registry=edge, central_registry=central, keys={},
    )  # fmt: skip
    size, log, flow, begun = len(keys), _Log(), Flow(plan, plan.entry, persisted=True), []
    chunk = Chunk("orders", 0, contents, [None] * size, [None] * size, times or [0] * size, list(range(size)))
    try:
        Delivery(DeliveryPlan("h", "dead", Cycles("h"), None), lambda _: strip).deliver(
            log, flow, chunk, lambda: begun.append(True), now_ms=1_700_000_000_000
        )
    except HoldError:
        assert not begun
        raise
    return log, flow


def test_a_record_that_came_without_a_key_is_a_dead_letter():
    """One such record would make the broker refuse its slot's whole transaction, again and again."""
    log, flow = _delivered(COMPACTED, [], [1, None, 2])
    entry = flow.cursor.entry
    assert (len(log.keys), log.reasons, (entry.delivered, entry.dead)) == (2, ["bad_key"], (2, 1))
    log, _ = _delivered(COMPACTED._replace(limits=Limits()), [], [1, None, 2])
    assert (len(log.keys), log.reasons) == (3, [])


def test_a_key_of_which_its_tags_leave_nothing_holds_the_flow():
    """The policy keeps keys, and the schema's tags take them: nothing is produced, and the sentence says what to do."""
    with pytest.raises(HoldError, match=r"eu\.orders is compacted, and nothing is left of a record key") as refusal:
        _delivered(COMPACTED, ["PII"], [1])
    assert "pseudonymize" in refusal.value.hint
    log, _ = _delivered(COMPACTED._replace(limits=Limits()), ["PII"], [1])
    assert log.keys == [None]


@pytest.mark.parametrize(("cleanup", "compacted"), [("compact", True), ("compact,delete", True), ("delete", False)])
def test_a_flow_knows_what_central_shows(cleanup, compacted):
    """Whatever the edge's topic is, and whoever made the central one."""
    settings = SETTINGS | {"eu.orders": {"cleanup.policy": cleanup}}
    flows = plan_flows(CONFIG, {}, SNAPSHOTS, settings, epoch=0, drain=False, now_ms=0)
    plans = {plan.source: plan for some in flows.by_slot.values() for plan in some}
    assert plans[FLOW].limits.keyed is compacted
