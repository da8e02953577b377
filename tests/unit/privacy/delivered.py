"""A strip with the real delivery behind it, into a list instead of a transaction: central records and dead letters."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aggregator.coordinates import EdgePartition
from aggregator.kafka.native.chunk import Chunk
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.identity.chains import Chains
from aggregator.replicate.identity.cycles import Cycles
from aggregator.replicate.slot.delivery import Delivery, DeliveryPlan
from aggregator.state.ledger import LedgerRecord

SOURCE = EdgePartition("eu", "orders", 3)
CENTRAL, LETTERS = "eu.orders", "hub.dead-letters"
LIMIT_BYTES = 100_000
LIMITS = TopicLimits(LIMIT_BYTES)
FIRST = 1000


@dataclass
class Produced:
    """What a slot's transaction would hold; the port `replicate.ports.Writer` as far as delivery uses it.

    Attributes:
        records: (topic, key, value, headers) in order.
        times: Timestamps of those that are no letters.
        flow: With its counts.
        chunk: What was to be delivered.
    """

    flow: Flow
    chunk: Chunk
    records: list = field(default_factory=list)
    times: list[int] = field(default_factory=list)

    def produce(self, topic, key, value, **_more):
        self.records.append((topic, key, value, []))

    def produce_all(self, topic, _partition, records):
        for key, value, timestamp_ms, headers in records:
            self.records.append((topic, key, value, headers))
            self.times.append(timestamp_ms)

    @property
    def central(self) -> list:
        """(key, value, headers) of what is delivered."""
        return [record[1:] for record in self.records if record[0] == CENTRAL]

    @property
    def letters(self) -> list[dict]:
        """Dead letters, decoded."""
        return [json.loads(value) for topic, _, value, _ in self.records if topic == LETTERS]

    def raw(self) -> bytes:
        """Every byte that leaves."""
        parts = [part for _, key, value, headers in self.records for part in (key, value, *(v for _, v in headers))]
        return repr(self.records).encode() + b"|".join(part for part in parts if isinstance(part, bytes))

    @property
    def counts(self) -> tuple[int, int, int]:
        """Delivered, dead, suppressed, as the ledger will say."""
        entry = self.flow.cursor.entry
        return entry.delivered, entry.dead, entry.suppressed


def deliver(
    strip,
    values: Sequence,
    keys: Sequence | None = None,
    headers: Sequence | None = None,
    cycles: Cycles | None = None,
    *,
    chains: Chains | None = None,
    backfill: str = "",
    limits: TopicLimits = LIMITS,
    timestamps_ms: Sequence[int] | None = None,
    asked: frozenset[int] = frozenset(),
    require_planned: Callable[[str, TopicLimits], None] = lambda *_: None,
) -> Produced:
    """Deliver records of one edge partition, from offset 1000 on; with `backfill` as that restate does.

    `asked`: offsets that somebody had delivered by their letters. `require_planned`: asks central what it takes.

    Raises:
        RetryError, HoldError: from the strip; nothing was produced, and the flow stands where it stood.
    """
    count = len(values)
    entry = LedgerRecord(0, "topic-id", FIRST, 1, 0)
    plan = FlowPlan(
        SOURCE, entry, is_new_position=False, central_topic=CENTRAL, by_key=False, limits=limits, replayed_offsets=asked
    )
    flow = Flow(plan, entry, persisted=True)
    chunk = Chunk(
        SOURCE.topic,
        SOURCE.partition,
        list(keys or [None] * count),
        list(values),
        [None] * count if headers is None else headers,
        list(timestamps_ms or [0] * count),
        list(range(FIRST, FIRST + count)),
    )
    produced = Produced(flow, chunk)
    hub = DeliveryPlan(
        "hub",
        LETTERS,
        cycles or Cycles("hub"),
        b"a key of thirty-two bytes, exactly",
        backfill,
        chains=chains or Chains(),
        writes_notices=bool(backfill),
    )
    Delivery(hub, lambda _source: strip, require_planned).deliver(produced, flow, chunk, lambda: None, now_ms=0)
    return produced
