"""What a slot's readers make of leader epochs: one that falls is another log, and nothing of it is taken."""

import math

import pytest

from aggregator.coordinates import EdgePartition, IncarnationRange, OffsetRange, Position
from aggregator.errors import HoldError, Unreachable
from aggregator.kafka.native.chunk import Chunk
from aggregator.kafka.readers.reader_events import Fault, FaultKind, PollResult, StartPosition, TruncationPoint
from aggregator.replicate.flow.cursor import Cursor, HoldReason
from aggregator.replicate.flow.flow import Flow, FlowPlan
from aggregator.replicate.flow.gaps import with_decisions
from aggregator.replicate.flow.limits import TopicLimits
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.partition_guard import PartitionGuard
from aggregator.replicate.slot.plan import SlotPlan
from aggregator.replicate.slot.readers import Readers
from aggregator.replicate.slot.refused_topics import RefusedTopics
from aggregator.schema.registry import IncompatibleSchema
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord
from aggregator.state.names import HubNames

SOURCE = EdgePartition("eu", "orders", 0)
AT = ("orders", 0)


class Edge:
    """An edge whose log reaches to offset 40, and central; it is the slot's world and its reader at once."""

    def __init__(self, leader_epoch: int | None, cut: TruncationPoint) -> None:
        self._leader_epoch, self._cut = leader_epoch, cut
        self.started: list[StartPosition] = []
        self.undecided_at: tuple[str, int] | None = None
        self.time_s = 0.0

    def open_reader(self, _edge):
        return self

    def open_topic_ids(self, _edge):
        return None

    def assign(self, starts):
        self.started += starts.values()

    def incremental_assign(self, _at, start):
        self.started.append(start)

    def incremental_unassign(self, _at):
        """Nothing is prefetched here."""

    def leader_epoch(self, _at):
        if self._leader_epoch is None:
            raise Unreachable("the edge does not answer")
        return self._leader_epoch

    def log_range(self, _at):
        return OffsetRange(0, 40)

    def find_truncation(self, *_):
        return self._cut

    def read_undecided(self, partitions):
        return {at: OffsetRange(0 if at == self.undecided_at else 1, 1) for at in partitions}

    def unwritable(self, _places):
        return ()

    def partition_count(self, _topic):
        return 1

    def now(self):
        return self.time_s

    def sleep(self, seconds):
        self.time_s += seconds

    def clock_ms(self):
        return 0


def reading(edge: Edge, *, skips: bool = False, until: int | None = None) -> tuple[Readers, Flow]:
    """A flow at offset 20, behind a record of leader epoch 3."""
    entry = LedgerRecord(0, "id", 20, epoch=1, slot=0, leader_epoch=3)
    flow_plan = FlowPlan(
        SOURCE, entry, False, "eu.orders", by_key=False, limits=TopicLimits(), skips_gaps=skips, until=until
    )
    flow = Flow(flow_plan, entry, persisted=True)
    plan = SlotPlan(
        HubNames("hub"), 1, "driver", 0, (flow.plan,), CommitPolicy(0.5, 1 << 20), drain=False, patience_s=5.0
    )
    readers = Readers(plan, edge, {SOURCE: flow}, PartitionGuard(edge, plan, RefusedTopics(), lambda _: None))
    readers.open()
    return readers, flow


def chunk(leader_epoch: int | None) -> Chunk:
    return Chunk(*AT, [None], [b"v"], [None], [0], [20], leader_epoch)


@pytest.mark.parametrize(
    ("of_chunk", "of_leader", "foreign", "hold"),
    [
        (3, 0, False, None),
        (None, 0, False, None),
        (0, 0, True, "recreated"),
        (2, 3, False, None),
        (2, None, True, None),
    ],
)
def test_records_of_a_leader_below_ours_are_not_taken(of_chunk, of_leader, foreign, hold):
    """A leader's epoch never falls while a topic lives; a record's may be below a cursor that stands inside a poll."""
    readers, flow = reading(Edge(of_leader, TruncationPoint(40, None)))
    assert readers.reject_other_log(flow, chunk(of_chunk)) is foreign
    assert (flow.cursor.hold and flow.cursor.hold.reason, flow.cursor.entry.next_offset) == (hold, 20)
    assert (flow.cursor.waiting is not None) is (of_leader is None)


@pytest.mark.parametrize(("cut", "gap"), [(TruncationPoint(20, 20, 4), None), (TruncationPoint(12, 14, 4), 12)])
def test_a_flow_that_was_not_read_for_a_while_looks_back_at_a_new_leader(cut, gap):
    """The client compares nothing with a leader that it knows already; in a partition that it reads on, it does."""
    readers, flow = reading(Edge(4, cut))
    assert readers.reject_other_log(flow, chunk(4)) is False
    readers.wait(flow, "the registry does not answer")
    readers.retry_due(100.0)
    assert readers.reject_other_log(flow, chunk(4)) is (gap is not None)
    assert (flow.cursor.entry.gap and flow.cursor.entry.gap.start) == gap


@pytest.mark.parametrize(("cut", "gap"), [(TruncationPoint(20, 20, 4), None), (TruncationPoint(12, 14, 4), 12)])
def test_a_flow_that_an_abort_took_back_looks_back_at_a_new_leader(cut, gap):
    """What was read since the leader changed is as if not read: the client compares nothing a second time."""
    readers, flow = reading(Edge(4, cut))
    assert readers.reject_other_log(flow, chunk(4)) is False
    readers.assign()
    assert readers.reject_other_log(flow, chunk(4)) is (gap is not None)
    assert (flow.cursor.entry.gap and flow.cursor.entry.gap.start) == gap


def test_a_flow_that_waited_at_its_commit_looks_back_after_an_abort_too():
    """What is taken back is read on later, when it has waited: the client compares nothing a second time."""
    edge = Edge(4, TruncationPoint(20, 20, 4))
    readers, flow = reading(edge)
    readers.wait(flow, "the registry does not answer")
    flow.commit()
    readers.retry_due(100.0)
    assert readers.reject_other_log(flow, chunk(4)) is False
    flow.rewind()
    readers.assign()
    edge._leader_epoch, edge._cut = 5, TruncationPoint(12, 14, 5)
    readers.retry_due(200.0)
    assert readers.reject_other_log(flow, chunk(5)) is True
    assert flow.cursor.entry.gap.start == 12


def test_a_log_that_is_cut_while_that_is_looked_for_is_judged_anew():
    """The search read two logs then: what it says of the newer one would count records as read that nobody read."""
    edge = Edge(5, TruncationPoint(20, 25, 7))
    readers, flow = reading(edge)
    readers.fault("eu", Fault(AT, FaultKind.POSITION_LOST, "truncated"))
    assert flow.cursor.entry.leader_epoch == 3
    assert flow.cursor.waiting is not None
    assert "truncated while that was looked for" in flow.cursor.waiting.why
    edge._leader_epoch, edge._cut = 7, TruncationPoint(12, 14, 7)
    readers.retry_due(100.0)
    assert flow.cursor.entry.gap.start == 12


@pytest.mark.parametrize(
    ("of_leader", "cut", "start", "held"),
    [
        (0, TruncationPoint(40, None), StartPosition(20, 3), "recreated"),
        (5, TruncationPoint(20, None), StartPosition(20, 5), None),
        (5, TruncationPoint(20, 25, 4), StartPosition(20, 4), None),
        (5, TruncationPoint(12, 14, 4), StartPosition(20, 3), "gap"),
    ],
)
def test_a_lost_position_is_another_log_or_a_gap_or_a_false_alarm(of_leader, cut, start, held):
    """After a false alarm the flow goes on with an epoch that the edge will not doubt, and that no later record has."""
    readers, flow = reading(Edge(of_leader, cut))
    readers.fault("eu", Fault(AT, FaultKind.POSITION_LOST, "truncated"))
    assert flow.cursor.start == start
    assert (flow.cursor.hold.reason if flow.cursor.hold else None) == held
    assert (flow.cursor.waiting is not None) is (held is None)


def test_no_gap_is_skipped_where_something_is_undecided_at_central():
    """What lies undecided below a flow's position counts as committed when it is settled."""
    edge = Edge(4, TruncationPoint(12, 14, 4))
    readers, flow = reading(edge, skips=True)
    edge.undecided_at = ("eu.orders", 0)
    lost = Fault(AT, FaultKind.POSITION_LOST, "truncated")
    readers.fault("eu", lost)
    assert (flow.cursor.waiting is not None, flow.cursor.decisions, flow.position.next_offset) == (True, (), 20)
    edge.undecided_at, edge.time_s = None, 100.0
    readers.retry_due(100.0)
    readers.begin_poll("eu", PollResult(), 0.0)
    readers.fault("eu", lost)
    assert [one.automatic for one in flow.cursor.decisions] == [True]


def test_the_end_behind_markers_alone_is_read_once_more_with_the_leader_epoch():
    """Without a record nothing has told an epoch, and a log that was cut there could not be seen later."""
    edge = Edge(7, TruncationPoint(40, None, None))
    readers, flow = reading(edge)
    flow.cursor = flow.cursor.with_position(Position(0, 20), None)
    readers.end(flow, 22)
    assert (flow.position.next_offset, edge.started[-1]) == (20, StartPosition(20, 7))
    readers.begin_poll("eu", PollResult(), 0.0)
    readers.end(flow, 22)
    assert (flow.position.next_offset, flow.cursor.entry.leader_epoch) == (22, 7)


def test_what_a_poll_says_of_a_flow_that_is_read_from_elsewhere_by_now_counts_no_more():
    """Its records were found to be of another log, and the flow went on behind a gap: its end is of before, too."""
    edge = Edge(5, TruncationPoint(12, 14, 4))
    readers, flow = reading(edge, skips=True)
    readers.begin_poll("eu", PollResult(), 0.0)
    readers.wait(flow, "the registry does not answer")
    readers.retry_due(100.0)
    readers.begin_poll("eu", PollResult(), 0.0)
    assert readers.reject_other_log(flow, chunk(5)) is True
    assert (flow.position, edge.started[-1].offset) == (Position(1, 12), 12)
    readers.end(flow, 40)
    readers.fault("eu", Fault(AT, FaultKind.FAILED, "of before"))
    assert (flow.position, flow.is_readable) == (Position(1, 12), True)
    readers.begin_poll("eu", PollResult(), 0.0)
    readers.end(flow, 40)
    assert flow.position == Position(1, 40)


def test_an_edge_that_speaks_of_others_alone_is_silent_about_a_flow():
    """A partition without a leader ends a drain after its patience, though heartbeats come every second."""
    edge = Edge(3, TruncationPoint(40, None))
    readers, flow = reading(edge, until=30)
    for second in range(1, 8):
        readers.begin_poll("eu", PollResult(ends={("heartbeats", 0): second}), float(second))
        assert readers.is_silent(SOURCE, float(second)) is (second > 5)
    readers.reset_silence("eu", 7.0)
    assert not readers.is_silent(SOURCE, 8.0), "it has more than was asked for"
    readers.begin_poll("eu", PollResult([chunk(3)]), 11.0)
    assert not readers.is_silent(SOURCE, 16.0)
    assert flow.is_readable


def test_a_gap_s_hold_is_put_aside_by_no_other():
    """What is tried again after a while goes on; a gap holds until somebody decides."""
    lost = Gap(GapKind.TRUNCATED, 12, None, 1)
    held = Cursor.at(SOURCE, LedgerRecord(0, "id", 20, epoch=1, slot=0, gap=lost))
    again = held.with_hold_until(HoldReason.CENTRAL, "central refuses its topic", 5.0)
    assert (again.hold.reason, again.waiting) == (HoldReason.GAP, None)


@pytest.mark.parametrize("kind", [GapKind.DAMAGED, GapKind.EXPIRED])
def test_behind_a_gap_the_leader_epoch_of_before_is_known(kind):
    """A log that is cut after the gap was found has a higher one, whenever the gap is passed."""
    lost = Gap(kind, 20, 30, 1)
    entry = LedgerRecord(0, "id", 20, epoch=1, slot=0, leader_epoch=3, gap=lost)
    assert Cursor.at(SOURCE, entry).with_skip(lost).start == StartPosition(30, 3)
    decision = GapDecision(SOURCE, Position(0, 20), lost, "ada@desk", 1, "known")
    assert with_decisions(entry, [decision]).leader_epoch == 3


@pytest.mark.parametrize("found", [None, Gap(GapKind.DAMAGED, 20, 40, 1), Gap(GapKind.TRUNCATED, 20, None, 1)])
def test_what_was_decided_about_a_damaged_batch_lets_no_other_one_pass(found):
    """Where the log was cut at the position, another batch may lie there, and only a part of it be damaged."""
    entry = LedgerRecord(0, "id", 20, epoch=1, slot=0, leader_epoch=3, gap=found)
    decision = GapDecision(SOURCE, Position(0, 20), Gap(GapKind.DAMAGED, 20, 30, 1), "ada@desk", 1, "known")
    assert with_decisions(entry, [decision]) == entry


class Damaged(Edge):
    """One whose batch from offset 20 to 30 cannot be read."""

    behind = 30

    def readable_from(self, _at, _offset):
        return self.behind


@pytest.mark.parametrize(
    ("cut", "passes"),
    [
        (TruncationPoint(30, None), True),
        (TruncationPoint(30, 30, 5), True),
        (TruncationPoint(20, 20, 5), False),
        (TruncationPoint(20, None), False),
    ],
)
def test_what_was_decided_about_a_damaged_batch_lets_none_pass_that_took_its_place(cut, passes):
    """A log that was cut at the position may have another damaged batch of the same extent; nobody was asked of it."""
    edge = Damaged(3, TruncationPoint(30, None))
    readers, flow = reading(edge)
    readers.fault("eu", Fault(AT, FaultKind.DAMAGED, "bad message"))
    decision = GapDecision(SOURCE, flow.position, flow.cursor.entry.gap, "ada@desk", 1, "known")
    assert with_decisions(flow.cursor.entry, [decision]).next_offset == 30
    edge._leader_epoch, edge._cut = 5, cut
    readers.retry_due(100.0)
    readers.begin_poll("eu", PollResult(), 100.0)
    readers.fault("eu", Fault(AT, FaultKind.DAMAGED, "bad message"))
    entry = flow.cursor.entry
    assert (entry.gap.start, entry.gap.end) == (20, 30)
    assert with_decisions(entry, [decision]).next_offset == (30 if passes else 20)


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(
    ("of_leader", "cut", "known"),
    [(3, TruncationPoint(30, None), 3), (5, TruncationPoint(20, 20, 4), 4), (5, TruncationPoint(20, 20, None), 5)],
)
def test_a_damaged_batch_is_bounded_by_a_leader_epoch_that_it_does_not_exceed(skips, of_leader, cut, known):
    """It may have begun one: told with the epoch before, the edge would call the log truncated for ever."""
    readers, flow = reading(Damaged(of_leader, cut), skips=skips)
    readers.fault("eu", Fault(AT, FaultKind.DAMAGED, "bad message"))
    assert flow.cursor.start == StartPosition(30 if skips else 20, known)
    assert flow.cursor.entry.gap == (None if skips else Gap(GapKind.DAMAGED, 20, 30, 0, known))


@pytest.mark.parametrize("skips", [False, True])
def test_what_lies_before_a_damaged_batch_is_judged_before_the_batch_is_a_gap(skips):
    """Else a cut that nobody has met would be passed with the batch, in silence."""
    readers, flow = reading(Damaged(5, TruncationPoint(12, 14, 4)), skips=skips)
    readers.fault("eu", Fault(AT, FaultKind.DAMAGED, "bad message"))
    assert flow.position == (Position(1, 12) if skips else Position(0, 20))
    assert flow.cursor.entry.gap == (None if skips else Gap(GapKind.TRUNCATED, 12, None, 0))


@pytest.mark.parametrize(("of_leader", "behind"), [(3, 25), (5, 30), (5, 25)])
def test_another_leader_may_have_another_batch_at_the_position(of_leader, behind):
    """Where the log was cut there, that is another gap, of whatever extent, and has another beginning in time."""
    edge = Damaged(of_leader, TruncationPoint(20, 20, of_leader))
    readers, flow = reading(edge)
    met = Gap(GapKind.DAMAGED, 20, 30, 7, 3)
    flow.cursor = flow.cursor.with_gap(met).with_retry()
    edge.behind = behind
    readers.fault("eu", Fault(AT, FaultKind.DAMAGED, "bad message"))
    assert flow.cursor.entry.gap == (met if of_leader == 3 else Gap(GapKind.DAMAGED, 20, behind, 0, 5))


def test_the_end_behind_markers_alone_waits_for_an_edge_that_tells_no_epoch_now():
    """What could not be told is asked for again; the position stays."""
    readers, flow = reading(Edge(None, TruncationPoint(40, None, None)))
    flow.cursor = flow.cursor.with_position(Position(0, 20), None)
    readers.end(flow, 22)
    assert flow.position.next_offset == 20
    assert flow.cursor.waiting is not None


def test_a_drain_takes_no_position_for_reached_that_its_edge_was_not_asked_about():
    """A log that was cut below a position and grew again ends where it did, too."""
    readers, flow = reading(Edge(3, TruncationPoint(40, None, None)), until=20)
    assert not readers.is_drained(flow)
    readers.end(flow, 20)
    assert readers.is_drained(flow)


def behind_markers(edge: Edge) -> tuple[Readers, Flow]:
    """A flow at the end of its log that has read no record yet."""
    readers, flow = reading(edge)
    flow.cursor = flow.cursor.with_position(Position(0, 40), None)
    flow.commit()
    return readers, flow


def test_at_the_end_behind_markers_the_leader_epoch_is_learned_and_kept():
    """No record has told it; without it a cut of the log would not be seen by any later life."""
    edge = Edge(7, TruncationPoint(40, None, None))
    readers, flow = behind_markers(edge)
    assert (flow.position.next_offset, flow.cursor.entry.leader_epoch, flow.has_changes) == (40, None, False)
    readers.end(flow, 40)
    assert edge.started[-1] == StartPosition(40, 7)
    assert flow.has_changes, "the ledger learns it"
    readers.begin_poll("eu", PollResult(), 0.0)
    readers.end(flow, 40)
    assert (flow.position.next_offset, flow.cursor.entry.leader_epoch) == (40, 7)


def test_an_edge_that_tells_no_leader_epochs_is_asked_once():
    """An old broker's partitions come to their ends by the thousand, and each question holds up the slot."""

    class Old(Edge):
        asked = 0

        def leader_epoch(self, _at):
            self.asked += 1

    edge = Old(0, TruncationPoint(40, None, None))
    readers, flow = behind_markers(edge)
    for offset in (40, 40, 41):
        readers.end(flow, offset)
    assert (edge.asked, flow.position.next_offset) == (1, 41)


@pytest.mark.parametrize(("cut", "gap"), [(TruncationPoint(20, 20, 4), None), (TruncationPoint(12, 14, 4), 12)])
def test_a_drain_reaches_no_position_that_was_said_to_be_lost_before_that_is_judged(cut, gap):
    """The edge did not answer at that moment; a client that is started anew does not compare a second time."""
    edge = Edge(None, cut)
    readers, flow = reading(edge, until=20)
    readers.end(flow, 20)
    readers.fault("eu", Fault(AT, FaultKind.POSITION_LOST, "truncated"))
    assert (flow.cursor.waiting is not None, readers.is_drained(flow)) == (True, False)
    edge.time_s = 1.0
    readers.retry_due(1.0)
    assert (flow.cursor.waiting is not None, readers.is_drained(flow)) == (True, False), "no answer yet"
    edge._leader_epoch, edge.time_s = 4, 100.0
    readers.retry_due(100.0)
    readers.begin_poll("eu", PollResult(), 100.0)
    readers.end(flow, 20)
    assert readers.is_drained(flow)
    assert (flow.cursor.entry.gap and flow.cursor.entry.gap.start) == gap


@pytest.mark.parametrize("skips", [False, True])
def test_what_an_abort_takes_back_is_judged_again(skips):
    """A cut that the transaction had found is not forgotten with it, though the edge's end is where it was."""
    readers, flow = reading(Edge(4, TruncationPoint(12, 14, 4)), skips=skips, until=20)
    readers.fault("eu", Fault(AT, FaultKind.POSITION_LOST, "truncated"))
    found = flow.position, flow.cursor.entry.gap
    flow.rewind()
    readers.assign()
    readers.begin_poll("eu", PollResult(), 0.0)
    assert not readers.is_drained(flow)
    readers.retry_due(0.0)
    assert (flow.position, flow.cursor.entry.gap) == found


def test_a_flow_that_waits_at_the_end_is_not_drained_before_its_edge_has_spoken():
    """It was denied, or its topic hidden: nobody has said that the log is as it was."""
    readers, flow = reading(Edge(3, TruncationPoint(40, None)), until=20)
    readers.fault("eu", Fault(AT, FaultKind.DENIED, "no rights"))
    assert (flow.is_readable, readers.is_drained(flow)) == (False, False)


@pytest.mark.parametrize("kind", [FaultKind.TOPIC_GONE, FaultKind.DENIED])
def test_what_an_edge_said_of_a_position_ends_with_the_next_fault(kind):
    """Nobody vouched for the poll of a client that said the position is lost: nothing of it was taken, this neither."""
    readers, flow = reading(Edge(3, TruncationPoint(40, None)), until=20)
    readers.end(flow, 20)
    readers.fault("eu", Fault(AT, kind, "broker 1 does not tell the ids of its topics"))
    assert not readers.is_drained(flow)
    readers.retry_due(100.0)
    readers.begin_poll("eu", PollResult(), 100.0)
    readers.end(flow, 20)
    assert readers.is_drained(flow)


def test_how_long_a_flow_waited_is_forgotten_when_its_edge_has_answered():
    """Without a record, too: an hour later a hiccup is a new one, and a drain's patience begins anew."""
    edge = Edge(3, TruncationPoint(40, None))
    readers, flow = reading(edge)
    readers.wait(flow, "a hiccup")
    readers.retry_due(1.0)
    readers.begin_poll("eu", PollResult(), 1.0)
    readers.end(flow, 20)
    edge.time_s = 3600.0
    readers.wait(flow, "a hiccup")
    assert (flow.cursor.waiting.since_s, flow.cursor.waiting.retry_at_s) == (3600.0, 3600.5)


def backfilling(edge: Edge) -> tuple[Readers, Flow]:
    """A backfill of offsets 20 to 30, all of which the live flow has passed; its last record had leader epoch 3."""
    entry = LedgerRecord(0, "id", 20, epoch=1, slot=0)
    parts = (IncarnationRange(0, OffsetRange(20, 30)),)
    flow_plan = FlowPlan(
        SOURCE, entry, False, "eu.orders", by_key=False, limits=TopicLimits(), segments=parts, live_leader_epoch=3
    )
    flow = Flow(flow_plan, entry, persisted=True)
    plan = SlotPlan(
        HubNames("hub"), 1, "driver", 0, (flow.plan,), CommitPolicy(0.5, 1 << 20), drain=True, patience_s=5.0
    )
    readers = Readers(plan, edge, {SOURCE: flow}, PartitionGuard(edge, plan, RefusedTopics(), lambda _: None))
    readers.open()
    return readers, flow


@pytest.mark.parametrize(
    ("of_chunk", "cut", "foreign"),
    [
        (3, TruncationPoint(22, 22, 4), False),
        (None, TruncationPoint(22, 22, 4), False),
        (4, TruncationPoint(22, 24, 4), True),
        (4, TruncationPoint(30, 30, 4), False),
        (4, TruncationPoint(28, 31, 4), False),
        (4, TruncationPoint(40, None), False),
    ],
)
def test_a_backfill_takes_nothing_that_is_newer_than_what_the_live_flow_has_passed(of_chunk, cut, foreign):
    """It lies behind a cut that the live flow has not met; by its offset it would be taken for what was lost."""
    readers, flow = backfilling(Edge(7, cut))
    assert readers.reject_other_log(flow, chunk(of_chunk)) is foreign
    assert flow.position.next_offset == 20
    assert (flow.cursor.hold and flow.cursor.hold.reason) == ("gap" if foreign else None)
    assert flow.cursor.entry.gap is None, "the next epoch looks again"
    if foreign:
        assert "cut at 22" in flow.cursor.hold.detail
        assert "aggregator gaps" in flow.cursor.hold.detail


def test_a_backfill_waits_for_an_edge_that_does_not_say_where_it_was_cut():
    """Nothing is taken meanwhile."""

    class Away(Edge):
        def find_truncation(self, *_):
            raise Unreachable("the edge does not answer")

    readers, flow = backfilling(Away(7, TruncationPoint(40, None)))
    assert readers.reject_other_log(flow, chunk(4)) is True
    assert (flow.is_readable, flow.cursor.hold) == (False, None)


def test_a_first_position_that_central_has_not_decided_is_waited_for_with_a_drain_s_patience():
    """Markers may come late; another hold is none that a drain outlives."""
    edge = Edge(3, TruncationPoint(40, None))
    readers, flow = reading(edge, until=30)
    readers.hold(flow, HoldReason.REFUSED, "a schema is refused")
    assert readers.is_drained(flow)
    readers.hold_until(flow, HoldReason.UNDECIDED, "a transaction is undecided", math.inf)
    assert not readers.is_drained(flow)
    edge.time_s = 5.1
    assert readers.is_drained(flow)


def test_a_schema_that_breaks_readers_is_a_reason_of_its_own():
    """Whoever is called finds the runbook of a changed policy; every other refusal is one."""
    reasons = [HoldReason.of_refusal(error("why", hint="next")) for error in (IncompatibleSchema, HoldError)]
    assert reasons == [HoldReason.INCOMPATIBLE, HoldReason.REFUSED]
