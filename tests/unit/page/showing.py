"""A page without a hub: an application over one snapshot, and hubs that are worth looking at."""

from pathlib import Path

from starlette.testclient import TestClient

from aggregator.backfill.backfill_state import BackfillState
from aggregator.backfill.monitor import Progress
from aggregator.config.model import HubConfig
from aggregator.config.waivers import Waiver
from aggregator.coordinates import CentralPartition, EdgePartition, Position
from aggregator.edges.availability import AvailabilityState
from aggregator.edges.history import StateSpan
from aggregator.lake.status import TableStatus
from aggregator.observe.fields import FieldSum, TopicFields
from aggregator.observe.gaps import GapState, KnownGap
from aggregator.observe.hub_status import HubStatus
from aggregator.observe.snapshot import Snapshot
from aggregator.page.application import Application
from aggregator.page.explanations import ExplanationCache
from aggregator.page.frames import Frames
from aggregator.privacy.batch.strip import PolicyId, ReportRow
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.telemetry import SlotReport, StandStill
from aggregator.web.access import TokenAuth
from tests.unit.observe.hubs import edge, flow, large

AT_MS = 1_700_000_000_000
MINUTE_MS = 60_000
TOKEN = "a word that is long enough"


class Watched:
    """Has one snapshot, until it is given another."""

    def __init__(self, seen):
        self.seen = seen

    def latest(self):
        return self.seen


def config(**changes) -> HubConfig:
    """A hub of three edges; `orders` and `payments` are replicated, and nothing answers."""
    edges = {name: {"bootstrap_servers": "127.0.0.1:9"} for name in ("eu", "us", "ap")}
    rule = {"match": "orders|payments", "policy": Path("policy.yaml"), "edges": ("eu", "us")}
    return HubConfig(hub="demo", central={"bootstrap_servers": "127.0.0.1:9"}, edges=edges, topics=(rule,), **changes)


def application(seen: Snapshot | None, *, token=None, hosts=("127.0.0.1",), hub=None) -> Application:
    """The application over one snapshot."""
    frames = Frames()
    frames.watcher = Watched(seen)
    return Application(
        "demo", frames, ExplanationCache(hub or config(), {}), TokenAuth(token, key=b"k" * 32), list(hosts)
    )


def client(seen: Snapshot | None, **options) -> TestClient:
    """A browser without eyes."""
    return TestClient(application(seen, **options).asgi, base_url="http://127.0.0.1", follow_redirects=False)


def fields_of(path="passenger.email", *, unclassified=False, operator="drop") -> TopicFields:
    """One field of a topic."""
    row = ReportRow(7, path, "string", ("PII",), "tag PII", operator, "removed", 90, 0, 90, 0, unclassified)
    return TopicFields(PolicyId("retail", 3, "ff"), {}, (FieldSum(row, 90, 0, 90, 0),))


def backfill(**changes) -> Progress:
    """One that runs."""
    parts = {"state": BackfillState.RUNNING, "asked": 2000, "done": 500, "per_s": 100.0, "rate": None, "delivered": 500}
    parts |= {"id": "b1a2", "mode": "into", "into": "v2", "by": "ada@desk", "at_ms": AT_MS, "dead": 0, "suppressed": 0}
    return Progress(**(parts | changes))


def troubled() -> Snapshot:
    """A hub in which everything that the page can say is to be said."""
    flows = (
        flow("eu", "orders", 0),
        flow("eu", "orders", 1, trouble="held, the registry has no schema 9", held="refused"),
        flow("us", "orders", 0, gap=Gap(GapKind.EXPIRED, 90, 140, AT_MS)),
        flow("ap", "heartbeats", 0),
    )
    lost = Gap(GapKind.EXPIRED, 90, 140, AT_MS)
    at = EdgePartition("us", "orders", 0)
    decision = GapDecision(at, Position(0, 5), Gap(GapKind.EXPIRED, 5, 9, 0), "ada", AT_MS, "a known outage")
    gaps = (
        KnownGap(at, Position(0, 90), lost, GapState.OPEN),
        KnownGap(at, Position(0, 5), decision.gap, GapState.ACCEPTED, decision),
    )
    edges = (
        edge("eu", since_ms=AT_MS - 5 * MINUTE_MS),
        edge("us", state="LOSING_DATA", reason="1 flow wanted offsets that the edge no longer has", gaps=1),
        edge("ap", state="UNREACHABLE", reason="neither a heartbeat nor an answer for 6 s (no route)"),
    )
    central = CentralPartition("eu.orders", "id", 0)
    tables = (
        TableStatus("orders", 4, 900, {central: 80}, {central: 90}, AT_MS - 9000, verdict="hold", quarantined=3),
        TableStatus("payments", problem="the folder cannot be read"),
        TableStatus("flights", 9, 1200, committed_ms=AT_MS - 1000, verdict="publish"),
    )
    status = HubStatus("demo", AT_MS, True, edges, flows, (gaps[0],), tables, waivers=(OPEN,), objections=(LOOSER,))
    spans = (
        StateSpan(AT_MS - 50 * MINUTE_MS, AT_MS - 6 * MINUTE_MS, AvailabilityState.UP),
        StateSpan(AT_MS - 6 * MINUTE_MS, AT_MS, AvailabilityState.UNREACHABLE),
    )
    return Snapshot(
        7,
        AT_MS,
        status,
        epoch=4,
        driver="host-1",
        slots=(SlotReport(0, 4, 1000),),
        refused={EdgePartition("eu", "payments", 0): StandStill("retention", "central would delete it at once")},
        backfills=(backfill(), backfill(id="old", state=BackfillState.FINISHED, done=2000)),
        topics={"eu": {"orders": 2, "payments": 1, "__consumer_offsets": 50, "crew": 3}, "us": {"orders": 1}},
        rates={EdgePartition("eu", "orders", 0): 120.0},
        throughput={"eu": tuple(float(100 + at % 7) for at in range(60)), "us": (0.0,) * 60},
        letters={("eu", "orders", "unknown_schema"): 6},
        fields={("eu", "orders"): fields_of(), ("us", "orders"): fields_of("seat", unclassified=True)},
        gaps=gaps,
        history={"eu": spans[:1], "us": spans, "ap": spans},
        watched_ms={"eu": AT_MS},
    )


LOOSER = "policy.yaml: orders <b>: dropped becomes passes"
OPEN = Waiver("edge us", "security.protocol", "sends password and records in clear", "a lab <b>")


def wide(edges: int, topics: int) -> Snapshot:
    """A large hub with rates, fields and a past."""
    plain = large(edges, topics)
    names = [one.edge for one in plain.status.edges]
    spans = tuple(
        StateSpan(
            AT_MS - (200 - at) * MINUTE_MS,
            AT_MS - (199 - at) * MINUTE_MS,
            AvailabilityState.UP if at % 5 else AvailabilityState.LAGGING,
        )
        for at in range(200)
    )
    return Snapshot(
        7,
        AT_MS,
        plain.status,
        epoch=4,
        slots=plain.slots,
        topics={name: {f"topic-{at}": 3 for at in range(topics)} for name in names},
        throughput={name: tuple(float(1000 + at * 7 % 90) for at in range(60)) for name in names},
        rates={EdgePartition(one.edge, one.topic, one.partition): 20.0 for one in plain.status.flows},
        fields={(name, f"topic-{at}"): fields_of() for name in names for at in range(topics)},
        history=dict.fromkeys(names, spans),
    )
