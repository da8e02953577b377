"""Snapshots of imagined hubs, of any size."""

from aggregator.edges.history import Uptime
from aggregator.observe.hub_status import EdgeStatus, FlowStatus, HubStatus
from aggregator.observe.snapshot import Snapshot
from aggregator.state.telemetry import SlotReport

UPTIMES = {"1h": Uptime(1.0, 0.99, 10.0), "24h": Uptime(1.0, 0.999, 1.0), "30d": Uptime(0.5, 1.0, 0.0)}


def flow(edge="eu", topic="orders", partition=0, **changes) -> FlowStatus:
    """One flow."""
    parts = {
        "incarnation": 0,
        "next_offset": 90,
        "end_offset": 100,
        "lag_records": 10,
        "lag_ms": 1500,
        "delivered": 80,
        "dead": 6,
        "suppressed": 4,
        "cycles": 1,
        "forged": 2,
        "stripped": 160,
        "retention_margin_ms": 3_600_000,
        "gap": None,
    }
    return FlowStatus(edge, topic, partition, **(parts | changes))


def edge(name="eu", **changes) -> EdgeStatus:
    """One edge."""
    parts = {
        "state": "UP",
        "reason": "heartbeats arrive",
        "since_ms": 0,
        "maintenance": False,
        "heartbeat_age_ms": 800,
        "latency_ms": 120,
        "skew_ms": -600_000,
        "lag_records": 10,
        "lag_ms": 1500,
        "retention_margin_ms": 3_600_000,
        "gaps": 0,
        "dead": 6,
        "flows": 1,
        "availability": UPTIMES,
    }
    return EdgeStatus(name, **(parts | changes))


def snapshot(edges=None, flows=None, **parts) -> Snapshot:
    """One moment of a hub; of one edge with one flow by default."""
    at_ms, lake = 1_700_000_000_000, parts.pop("lake", ())
    status = HubStatus("h", at_ms, True, tuple(edges or [edge()]), tuple(flows or [flow()]), (), lake)
    return Snapshot(7, at_ms, status, **parts)


def large(edges: int, topics: int) -> Snapshot:
    """A hub with as many topics on each edge, and a slot that reads all of them."""
    names = [f"edge-{number}" for number in range(edges)]
    numbers = {"brokers_up": 3.0, "request_p99_s": 0.1, "queued_messages": 4.0, "sent_bytes": 1e9}
    slot = SlotReport(0, 3, 1000, clients={f"edge {name}": numbers for name in names} | {"central": numbers})
    return snapshot(
        [edge(name) for name in names],
        [flow(name, f"topic-{topic}") for name in names for topic in range(topics)],
        slots=(slot,),
    )
