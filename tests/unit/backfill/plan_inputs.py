"""A small backfill plan, and the topic that it reads."""

from aggregator.backfill.plan import PartitionPlan, Plan
from aggregator.backfill.request import Mode
from aggregator.coordinates import IncarnationRange, OffsetRange
from aggregator.replicate.discovery.edge_topic import EdgeTopic
from tests.unit.replicate.plan_inputs import FLOW

PART = PartitionPlan(
    FLOW,
    "id-1",
    "eu.orders",
    (OffsetRange(0, 40),),
    OffsetRange(0, 90),
    segments=(IncarnationRange(0, OffsetRange(0, 40)),),
)


PLAN = Plan("h", {}, "d", Mode.MISSING, "", (PART,))


TOPIC = EdgeTopic("orders", "id-1", (0, 0), (80, 70), (90, 70), (None, None))
