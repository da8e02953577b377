"""A drain's patience, on the real slot in simulated time: what waits for a registry is held by name, never "silent"."""

import itertools
import json

import pytest

from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.errors import TransactionAborted, Unreachable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import PollResult
from aggregator.privacy.batch.strip import SchemaIdsUnasked
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.plan import SlotOutcome, SlotPlan
from aggregator.replicate.slot.slot import Slot
from aggregator.state.control import ControlState, Epoch
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames
from aggregator.state.telemetry import SlotFeed

SOURCE = EdgePartition("eu", "orders", 0)
PATIENCE_S = 5.0


class Delivery:
    """A registry that does not answer."""

    def deliver(self, *_, now_ms):
        raise Unreachable("the registry does not answer", hint="start it")

    def field_reports(self, _now_s, *, last=False):
        return ()


class Edge:
    """One record, which comes some seconds after it was asked for; a reader of it, and the slot's world."""

    def __init__(self, latency_s: float) -> None:
        self.latency_s, self.time_s = latency_s, 0.0
        self.asked_s: float | None = None

    def assign(self, *_):
        self.asked_s = self.time_s

    def incremental_assign(self, *_):
        self.asked_s = self.time_s

    def incremental_unassign(self, *_):
        self.asked_s = None

    def poll(self, _most, wait_s):
        self.time_s += wait_s
        if self.asked_s is None or self.time_s < self.asked_s + self.latency_s:
            return PollResult()
        return PollResult([Chunk("orders", 0, [None], [b"v"], [None], [0], [0])])

    def sleep(self, seconds):
        self.time_s += seconds

    def now(self):
        return self.time_s

    def clock_ms(self):
        return 0

    def poll_control(self):
        return ControlState(Epoch(1, 1, 1, "driver"))

    read_control = poll_control

    def read_ledger(self):
        return {}

    def read_undecided(self, partitions):
        return dict.fromkeys(partitions, OffsetRange(0, 0))

    def unwritable(self, _places):
        return ()

    def partition_count(self, _topic):
        return 1

    def open_writer(self):
        return self

    def open_reader(self, _edge):
        return self

    def open_topic_ids(self, _edge):
        return None

    def acknowledged(self, _at):
        return None

    def publish_telemetry(self, _body):
        return

    def commit(self):
        return

    open = close = begin = commit


def drained(edge: Edge, delivery=None, *, fresh: bool = False, until: int = 1) -> SlotOutcome:
    """How a drain of its records ends."""
    entry = LedgerRecord(0, "id", 0, epoch=1, slot=0)
    flow = FlowPlan(SOURCE, entry, fresh, "eu.orders", by_key=False, limits=TopicLimits(), until=until)
    plan = SlotPlan(
        HubNames("hub"), 1, "driver", 0, (flow,), CommitPolicy(0.5, 1 << 20), drain=True, patience_s=PATIENCE_S
    )
    return Slot(plan, edge, delivery or Delivery()).run()


class Flood(Delivery):
    """A registry that is not asked about the third record's id before it was waited for."""

    def __init__(self):
        self.taken = []

    def deliver(self, _writer, flow, chunk, _begin, *, now_ms):
        if chunk.offsets[-1] >= 2 and not self.taken:
            raise SchemaIdsUnasked(2 - chunk.offsets[0], 1)
        self.taken.append(list(chunk.offsets))
        flow.cursor = flow.cursor.with_chunk(chunk, dead=0, suppressed=0, stripped=0, schemas={})
        return 0


def test_what_stands_before_a_flood_goes_on_and_the_flow_waits():
    """The rest is read again after a pause, from where it stands; nothing is left out."""
    delivery, starts = Flood(), []

    class Four(Edge):
        touched = ()

        def poll(self, _most, wait_s):
            self.time_s += wait_s
            if self.asked_s is None:
                return PollResult()
            offsets = list(range(2 if delivery.taken else 0, 4))
            starts.append((offsets[0], round(self.time_s, 1)))
            none = [None] * len(offsets)
            return PollResult([Chunk("orders", 0, none, none, none, [0] * len(offsets), offsets)])

        def produce(self, *_, **__):
            return

    outcome = drained(Four(0.1), delivery, until=4)
    assert delivery.taken == [[0, 1], [2, 3]]
    assert [first for first, _ in starts] == [0, 2]
    assert starts[1][1] - starts[0][1] >= 0.5
    assert (outcome.holds, outcome.undrained) == ((), ())


@pytest.mark.parametrize("latency_s", [tenths / 10 for tenths in itertools.chain(range(1, 10), (20, 40))])
def test_what_waits_is_held_by_name(latency_s):
    """However long the edge takes to answer each retry, within the patience: the flow is held, with the reason."""
    outcome = drained(Edge(latency_s))
    assert [(hold.source, hold.reason) for hold in outcome.holds] == [(SOURCE, "waiting")]
    assert "registry" in outcome.holds[0].detail
    assert outcome.undrained == ()


def test_an_edge_that_never_answers_is_silent():
    """The patience is still the edge's: nothing is held, and the flow is told as not drained."""
    outcome = drained(Edge(1e9))
    assert (outcome.holds, outcome.undrained) == ((), (SOURCE,))


class Taken(Delivery):
    """Everything is delivered."""

    def deliver(self, _writer, flow, chunk, begin, *, now_ms):
        begin()
        flow.cursor = flow.cursor.with_chunk(chunk, dead=0, suppressed=0, stripped=0, schemas=())
        return now_ms


class Busy(Edge):
    """An edge whose topic is written to without a pause; it gives up when a drain has not ended after a minute."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.next_offset = 0

    def poll(self, _most, _wait_s):
        self.time_s += 0.1
        assert self.time_s < 60, "the drain does not end"
        self.next_offset += 1
        return PollResult([Chunk("orders", 0, [None], [b"v"], [None], [0], [self.next_offset - 1])])

    def produce(self, *_, partition):
        """Taken."""

    touched = frozenset()


def test_a_drain_ends_where_it_was_asked_to_while_the_edge_goes_on_writing():
    """What comes behind that is the next run's."""
    edge = Busy()
    outcome = drained(edge, Taken())
    assert (outcome.result, outcome.undrained, outcome.holds) == ("drained", (), ())


class Silence:
    """Central that answers no producer, until another driver opens an epoch after very many attempts."""

    def __init__(self, attempts: int) -> None:
        self.left, self.waited_s, self.told = attempts, [], []

    def poll_control(self):
        return ControlState() if self.left else ControlState(Epoch(2, 1, 1, "another"))

    def open_writer(self):
        self.left -= 1
        return self

    def open(self):
        raise Unreachable("central does not answer", hint="start it")

    def close(self):
        """Nothing is kept."""

    def sleep(self, seconds):
        self.waited_s.append(seconds)

    def publish_telemetry(self, body):
        self.told.append(body)


def test_a_slot_outlives_a_central_that_is_away_for_hours():
    """It asks again every five seconds, however often it has asked, and says each time why nothing flows."""
    world = Silence(2000)
    flow = FlowPlan(SOURCE, LedgerRecord(0, "id", 0, 1, 0), False, "eu.orders", by_key=False, limits=TopicLimits())
    plan = SlotPlan(
        HubNames("hub"), 1, "driver", 0, (flow,), CommitPolicy(0.5, 1 << 20), drain=False, patience_s=PATIENCE_S
    )
    assert Slot(plan, world, Delivery()).run().result == "superseded"
    assert max(world.waited_s) == world.waited_s[-1] == 5.0
    assert len(world.told) == 2000
    body = {"rss_bytes": 0, "cpu_s": 0.0} | world.told[-1]
    feed = SlotFeed()
    feed.ingest(json.dumps(body).encode(), 0.0)
    (word,) = feed.slots(0.0)
    assert dict(word.waiting) == {str(SOURCE): "central does not answer"}


class Refuses(Edge):
    """Central refuses the begin of a transaction, or its abort, once; every producer is another one."""

    def __init__(self, where: str) -> None:
        super().__init__(0.0)
        self.where, self.refused, self.opened = where, 0, 0

    touched = frozenset()

    def open(self):
        self.opened += 1

    def produce(self, *_, partition):
        """Taken."""

    def refusals(self):
        return ()

    def _refuse(self, where):
        if where == self.where and not self.refused:
            self.refused = 1
            raise TransactionAborted("central refuses it")

    def begin(self):
        self._refuse("begin")

    def commit(self):
        if self.where == "abort" and self.opened == 1:
            raise TransactionAborted("central refuses it")

    def abort(self):
        self._refuse("abort")


@pytest.mark.parametrize("fresh", [False, True])
@pytest.mark.parametrize("where", ["begin", "abort"])
def test_a_transaction_that_cannot_even_begin_or_end_costs_its_producer(where, fresh):
    """The next one goes on from the ledger; the slot does not fail."""
    edge = Refuses(where)
    outcome = drained(edge, Taken(), fresh=fresh)
    assert (outcome.result, outcome.holds, outcome.undrained) == ("drained", (), ())
    assert edge.opened == (1 if where == "begin" and not fresh else 2)
