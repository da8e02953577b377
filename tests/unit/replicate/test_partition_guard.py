"""The gate: closed partitions, how long they are waited for, whom they hold up, and when only another epoch helps."""

import pytest

from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.writers.refusals import Refusal
from aggregator.replicate.flow.flow import FlowPlan
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.partition_guard import BEHIND_S, STUCK_S, PartitionGuard
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.refused_topics import RefusedTopics
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames

PLAN = SlotPlan(HubNames("hub"), 1, "driver", 0, (), CommitPolicy(0.5, 1 << 20), drain=False, patience_s=5.0)
LEDGER = (PLAN.names.ledger, 0)
GONE = Refusal("eu.orders", -1, RefusalKind.TOPIC_GONE, "Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART)")


def flow_of(topic):
    """A flow into partition 0 of a topic of central."""
    source, entry = EdgePartition("eu", "orders", 0), LedgerRecord(0, "id", 0, epoch=1, slot=0)
    return FlowPlan(source, entry, False, topic, by_key=False, limits=TopicLimits())


ORDERS, OTHERS = flow_of("eu.orders"), flow_of("us.orders")


class World:
    """Central as the gate sees it.

    Attributes:
        stable, end: The ledger's; everything else is empty.
        silent: Topics that do not answer.
        refuses: What central says of those.
    """

    def __init__(self):
        self.stable, self.end, self.time_s = 0, 0, 0.0
        self.asked, self.explained = [], []
        self.silent, self.refuses = set(), []
        self.acknowledged, self.learned = {}, 0

    def read_undecided(self, partitions):
        self.asked.append(sorted(partitions))
        found = {at: OffsetRange(self.stable, self.end) if at == LEDGER else OffsetRange(0, 0) for at in partitions}
        return {at: offsets for at, offsets in found.items() if at[0] not in self.silent}

    def refresh_leaders(self):
        self.learned += 1

    def unwritable(self, partitions):
        self.explained.append(sorted(partitions))
        return [one for one in self.refuses if one.topic in {topic for topic, _ in partitions}]

    def partition_count(self, _topic):
        return 1

    def now(self):
        return self.time_s

    def sleep(self, seconds):
        self.time_s += seconds


@pytest.fixture
def world():
    """One where everything is decided."""
    return World()


@pytest.fixture
def refused():
    """What the slot remembers."""
    return RefusedTopics()


@pytest.fixture
def gate(world, refused):
    """Of a slot that has written nothing yet."""
    return PartitionGuard(world, PLAN, refused, world.acknowledged.get)


@pytest.fixture
def closed(world, gate):
    """Closed, because five records were just committed to the ledger, and patience with their marker is over."""
    world.end = 5
    gate.transaction_ended([LEDGER])
    assert "hub.ledger-0 at central holds an undecided transaction" in gate.await_open([])
    return gate


def test_the_end_is_that_of_the_transaction_before(world, closed):
    """What others write behind it keeps nothing closed."""
    world.stable, world.end = 5, 900
    world.time_s += 1
    assert closed.await_open([]) == ""


def test_nothing_is_asked_twice_where_nothing_was_written(world, gate):
    """An open partition costs no question until the next transaction is over."""
    assert gate.await_open([]) == ""
    asked = len(world.asked)
    assert [gate.await_open([]) for _ in range(9)] == [""] * 9
    assert len(world.asked) == asked


def test_only_what_stays_closed_ends_the_epoch(world, closed):
    """A partition that was decided while nobody wanted to write there is not stuck; one that was not is."""
    world.time_s += STUCK_S + 1
    assert closed.is_stuck()
    world.stable = 5
    world.time_s += 1
    assert not closed.is_stuck()


def test_what_central_refuses_of_a_silent_partition_is_kept_as_if_a_record_had_been_refused(world, gate, refused):
    """Who asks before it writes learns of a deleted topic first; its flows are held for the same reason and time."""
    world.silent, world.refuses = {"eu.orders"}, [GONE]
    said = gate.await_open([ORDERS])
    topic = refused.active_refusal("eu.orders", world.now())
    assert said == topic.detail
    assert "eu.orders: Broker: Unknown topic or partition (UNKNOWN_TOPIC_OR_PART)" in said
    assert "next: create it again" in said
    assert (refused.aborts, refused.why) == (0, "")
    assert not gate.is_stuck()


def test_a_refused_topic_is_asked_about_again_when_its_time_has_come_and_not_before(world, gate, refused):
    """Each time in vain it rests twice as long; as soon as it is there, it is open."""
    world.silent, world.refuses = {"eu.orders"}, [GONE]
    gate.await_open([ORDERS])
    topic = refused.active_refusal("eu.orders", world.now())
    explained = len(world.explained)
    while world.time_s < topic.retry_at_s - 1.5:
        world.time_s += 1
        assert gate.await_open([ORDERS]) == topic.detail
    assert len(world.explained) == explained
    world.time_s += 2
    assert gate.await_open([ORDERS])
    assert refused.active_refusal("eu.orders", world.now()).pause_s == 2 * topic.pause_s
    world.silent.clear()
    world.time_s = refused.active_refusal("eu.orders", world.now()).retry_at_s
    assert gate.await_open([ORDERS]) == ""


def test_a_partition_without_a_leader_is_waited_for_by_name(world, gate, refused):
    """Nobody refuses it: its flows wait, and no epoch is ended for it, however long it takes."""
    world.silent = {"eu.orders"}
    assert gate.await_open([ORDERS]) == "eu.orders-0 at central does not answer: is it there, has it a leader?"
    assert list(refused) == []
    world.time_s += 10 * STUCK_S
    assert not gate.is_stuck()
    world.silent.clear()
    assert gate.await_open([ORDERS]) == ""


def test_a_silent_partition_holds_up_nobody_but_its_own_flows(world, gate):
    """Once it is closed, the questions of a slot's other transactions leave it out."""
    world.silent = {"eu.orders"}
    gate.await_open([ORDERS, OTHERS])
    world.asked.clear()
    for _ in range(20):
        gate.transaction_ended([LEDGER, ("us.orders", 0)])
        began = world.now()
        assert gate.await_open([OTHERS]) == ""
        assert world.now() == began
    assert not any(("eu.orders", 0) in places for places in world.asked)


def test_a_partition_that_answered_and_is_silent_now_is_no_undecided_one(world, closed):
    """Its leader went away: that is said, and no epoch is ended before it answers again."""
    world.silent = {LEDGER[0]}
    world.time_s += STUCK_S + 1
    assert "does not answer" in closed.await_open([])
    assert not closed.is_stuck()
    world.silent.clear()
    world.time_s += 1
    assert "holds an undecided transaction" in closed.await_open([])
    assert closed.is_stuck()


def test_an_end_that_lacks_what_was_acknowledged_is_no_answer(world, gate):
    """It is of a leader that was deposed: nothing undecided there says nothing; who leads now is learned, and asked."""
    world.acknowledged[LEDGER] = 4
    world.stable = world.end = 4
    gate.transaction_ended([LEDGER])
    assert "hub.ledger-0 at central lacks records that it had acknowledged" in gate.await_open([])
    assert world.learned > 0
    world.stable = world.end = 5
    world.time_s += 1
    assert gate.await_open([]) == ""


def test_a_partition_that_lacks_what_was_acknowledged_for_long_ends_the_epoch(world, gate):
    """Somebody made its topic anew: no leader will ever tell an end with those records."""
    world.acknowledged[LEDGER] = 4
    world.stable = world.end = 1
    gate.transaction_ended([LEDGER])
    gate.await_open([])
    world.time_s += STUCK_S + 1
    assert not gate.is_stuck()
    world.time_s += BEHIND_S
    assert gate.is_stuck()


def test_what_is_undecided_when_a_slot_ends_is_named(world, gate):
    """Nobody asks about it before the next epoch, and nobody else knows of it."""
    world.stable, world.end = 3, 5
    gate.transaction_ended([LEDGER])
    assert gate.undecided() == (LEDGER,)
    world.stable, world.time_s = 5, world.time_s + 1
    assert gate.undecided() == ()
