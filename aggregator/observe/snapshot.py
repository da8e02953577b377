"""A snapshot: everything that is known of a hub at one moment. Metrics, page and terminal are made from it.

Invariant: frozen, and without any content of a record.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from aggregator.backfill.monitor import Progress
from aggregator.coordinates import EdgePartition
from aggregator.edges.history import StateSpan
from aggregator.observe.fields import TopicFields
from aggregator.observe.gaps import KnownGap
from aggregator.observe.hub_status import HubStatus
from aggregator.state.pauses import Pause
from aggregator.state.telemetry import SlotReport, StandStill


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Holds everything that is known of a hub at one moment.

    Attributes:
        number: Counts up; the next one has another.
        at_ms: The moment by central's clock, in milliseconds since 1970.
        status: Edges, flows, open gaps and the lake, as `aggregator status` shows them.
        epoch: The newest assignment's number; -1 before the first.
        driver: The identity of the driver that opened the epoch.
        slots: What the slots that run told last.
        backfilling: The same of a backfill's slots.
        refused: Flows that the driver gave to no slot in the newest epoch, and why.
        backfills: All of them, the oldest first.
        topics: By edge: its topics, replicated or not, with their partitions; one that never answered is missing.
        rates: Records per second that each flow delivers, over the last seconds.
        throughput: Records per second of each edge, second by second, the newest last.
        letters: Dead letters by edge, topic and reason, of the newest hundred thousand.
        fields: What is known of the fields of each edge topic, and what becomes of them.
        gaps: Every gap, open or decided.
        pauses: The newest pause or resumption of each edge that ever was paused.
        history: The states of each edge in the last thirty days.
        damaged: Records of the hub's own topics that were none of ours, by topic.
        watched_ms: When each edge last answered, by central's clock; an edge that never did is missing.
    """

    number: int
    at_ms: int
    status: HubStatus
    epoch: int = -1
    driver: str = ""
    slots: tuple[SlotReport, ...] = ()
    backfilling: tuple[SlotReport, ...] = ()
    refused: Mapping[EdgePartition, StandStill] = field(default_factory=dict)
    backfills: tuple[Progress, ...] = ()
    topics: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    rates: Mapping[EdgePartition, float] = field(default_factory=dict)
    throughput: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    letters: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    fields: Mapping[tuple[str, str], TopicFields] = field(default_factory=dict)
    gaps: tuple[KnownGap, ...] = ()
    pauses: Mapping[str, Pause] = field(default_factory=dict)
    history: Mapping[str, tuple[StateSpan, ...]] = field(default_factory=dict)
    damaged: Mapping[str, int] = field(default_factory=dict)
    watched_ms: Mapping[str, int] = field(default_factory=dict)
