"""What plans are made of in tests: a configuration, a flow, and what edges show."""

from pathlib import Path

from aggregator.config.model import HubConfig
from aggregator.coordinates import EdgePartition
from aggregator.replicate.discovery.edge_topic import EdgeTopic

CONFIG = HubConfig(
    hub="h",
    central={"bootstrap_servers": "c:1"},
    edges={"eu": {"bootstrap_servers": "e:1"}, "us": {"bootstrap_servers": "u:1"}},
    topics=({"match": "orders", "policy": Path("p.yaml"), "start": "latest"},),
    replication={"slots": 2},
)


ORDERS = EdgeTopic("orders", "id-1", (5, 0), (80, 70), (90, 70), (None, None), {"cleanup.policy": "compact"})


BEATS = EdgeTopic("heartbeats", "id-h", (0,), (0,), (3,), (None,))


SNAPSHOTS = {"eu": {"orders": ORDERS, "heartbeats": BEATS}}


SETTINGS = {"eu.orders": {"max.message.bytes": "1000"}, "eu.heartbeats": {}}


FLOW = EdgePartition("eu", "orders", 0)
