"""A compacted central topic, and what a slot delivers to it."""

import json
import time

from aggregator.coordinates import EdgePartition
from aggregator.errors import HoldError
from aggregator.kafka.native.chunk import Chunk
from aggregator.machine_clock import utc_today
from aggregator.privacy.policy.file import parse_policy
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.replicate.slot.planned_limits import LimitsChanged
from aggregator.schema.memory import MemoryRegistry
from aggregator.schema.wire import frame
from aggregator.state.ledger import LedgerRecord
from tests.reference.reference import ReferenceStrip

COMPACTED = FlowPlan(
    EdgePartition("eu", "orders", 0),
    LedgerRecord(0, "id", 0, 1, 0),
    is_new_position=False,
    central_topic="eu.orders",
    by_key=False,
    limits=TopicLimits(10_000, requires_key=True),
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


def _delivered(plan, tags, keys, times=None, require_planned=lambda *_: None):
    """Deliver tombstones with these keys, numbers framed under a schema with these tags."""
    edge, central = MemoryRegistry(), MemoryRegistry()
    schema_id = edge.register("orders-key", json.dumps({"type": "int", "confluent:tags": tags}))
    contents = [None if key is None else frame(schema_id, bytes([2 * key])) for key in keys]
    strip = ReferenceStrip(
        policy=parse_policy(POLICY), edge_topic="orders", central_topic="eu.orders",
        edge_registry=edge, central_registry=central, key_rings={}, today=utc_today, now_s=time.monotonic,
    )  # fmt: skip
    size, log, flow, begun = len(keys), _Log(), Flow(plan, plan.entry, persisted=True), []
    chunk = Chunk("orders", 0, contents, [None] * size, [None] * size, times or [0] * size, list(range(size)))
    try:
        Delivery(DeliveryPlan("h", "dead", Cycles("h"), None), lambda _: strip, require_planned).deliver(
            log, flow, chunk, lambda: begun.append(True), now_ms=1_700_000_000_000
        )
    except (HoldError, LimitsChanged):
        assert not begun
        raise
    return log, flow
