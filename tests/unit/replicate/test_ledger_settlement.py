"""What is undecided in the ledger and the requests is settled by what is visible of the same transaction."""

import json
import re
import threading

import pytest
from msgspec import structs

from aggregator.coordinates import EdgePartition, OffsetRange, Origin, Position
from aggregator.errors import FatalError, Fenced, OutcomeUnknown, TransactionAborted, Unreachable
from aggregator.kafka.readers.open_range import CentralRecord
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.ledger_settlement import settle_ledger
from aggregator.replicate.leadership.settlement import (
    OpenTransactions,
    TransactionOwner,
    abort_open_transactions,
    rewrite_missing,
)
from aggregator.state.control import LAST_EPOCH, ControlState, Epoch, Lease, Target, UndecidedRange
from aggregator.state.dead_letters import encode_resolution, letter_key
from aggregator.state.gap import Gap, GapDecision, GapKind
from aggregator.state.ledger import LedgerRecord, flow_key
from aggregator.state.names import HubNames
from aggregator.state.requests import encode

NAMES = HubNames("h")
FLOW = EdgePartition("eu", "orders", 0)
BEFORE = LedgerRecord(0, "id", 10, 3, 0, delivered=10)
AFTER = structs.replace(BEFORE, next_offset=15, dead=5)
WHOSE, LATE = TransactionOwner.of_live_flows(NAMES), TransactionOwner.of_backfills(NAMES)
ORDERS, OTHERS, LETTERS = ("eu.orders", 0), ("eu.others", 0), (NAMES.dead_letters, 0)
EPOCH = Epoch(4, 1, 1, "me")
LEDGER, REQUESTS = (NAMES.ledger, 0), (NAMES.requests, 0)
DECISION = GapDecision(FLOW, Position(0, 10), Gap(GapKind.EXPIRED, 10, 15, 7), "the rule", 9, "r", automatic=True)


class Central:
    """A cluster in which each partition given is undecided, with this record, and visible is what else is said.

    Args:
        undecided: Partitions in which a record is open.
        read_ledger: What the ledger shows.
        visible: Records that central shows, by partition.
        stuck: Partitions that no abort of the hub decides.
    """

    def __init__(self, undecided, *, ledger=BEFORE, visible=None, stuck=()):
        self.left, self.shown, self.visible, self.stuck = dict(undecided), ledger, visible or {}, set(stuck)
        self.notes, self.written, self.now_s = {}, {}, 0.0

    def read_undecided(self, partitions):
        still = {at for at, (_, is_open) in self.left.items() if is_open} | self.stuck
        return {at: OffsetRange(5, 6 if at in still else 5) for at in partitions}

    def read_records(self, at, _offsets, *, committed):
        return [] if committed or at not in self.left else [self.left[at][0]]

    def end_undecided(self, records, _slots, *, allowed):
        allowed(self.read_control())
        self.left |= {at: (self.left[at][0], False) for at in records}

    def publish(self, *entries):
        self.notes |= {(one.topic, one.partition): OffsetRange(one.start, one.end) for one in entries}

    def read_control(self):
        return ControlState(epoch=EPOCH, undecided=self.notes)

    def visible_ledger(self, backfill):
        key = flow_key(FLOW, backfill).encode()
        moved = [one for at, some in self.written.items() if at[0].endswith("ledger") for one in some if one.key == key]
        return {FLOW: AFTER if moved else self.shown} if self.shown or moved else {}

    def destinations(self, source, _backfill):
        return [ORDERS] if source == FLOW else []

    def partitions(self, topics):
        return [(topic, 0) for topic in topics]

    def find_newest_position(self, partitions, position_of):
        told = [position_of(at, one) for at in partitions for one in self.visible.get(at, ())]
        return max((one for one in told if one), default=None)

    def rewrite_records(self, noted, records):
        self.written[noted.topic, noted.partition] = list(records)

    def now(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


def record(key, value, headers=()):
    return CentralRecord(key.encode(), value, 0, tuple(headers))


def delivered(offset, backfill="", hub="h"):
    """A record of the flow, as central has it."""
    brought = [("hub.backfill", backfill.encode())] if backfill else []
    return record("k", b"v", [("hub.origin", Origin(hub, *FLOW, offset, 0).encode()), *brought])


def letter(offset, backfill=""):
    """A dead letter of the flow."""
    body = {"edge": "eu", "topic": "orders", "reason": "too_large"} | ({"backfill": backfill} if backfill else {})
    return record(letter_key(FLOW, offset, 0), json.dumps(body).encode())


def settled(central, owner=WHOSE, partitions=()):
    found = abort_open_transactions(central, EPOCH, {*owner.internal(EPOCH), *partitions}, notes={}, owner=owner)
    settle_ledger(central, found, EPOCH, owner)
    return {at: bool(records) for at, records in central.written.items()}


def of_ledger(entry, backfill="", owner=WHOSE):
    """An undecided record of the ledger."""
    return {(owner.ledger, 0): (record(flow_key(FLOW, backfill), entry.encode()), True)}


@pytest.mark.parametrize(
    ("visible", "is_committed"),
    [
        ({}, False),
        ({ORDERS: [delivered(12)]}, True),
        ({ORDERS: [delivered(9)]}, False),
        ({ORDERS: [delivered(15)]}, False),
        ({ORDERS: [delivered(12), delivered(99)]}, True),
        ({ORDERS: [delivered(12, backfill="b1")]}, False),
        ({ORDERS: [delivered(12, hub="other")]}, False),
        ({LETTERS: [letter(14)]}, True),
        ({LETTERS: [letter(9)]}, False),
        ({LETTERS: [letter(14, backfill="b1")]}, False),
    ],
)
def test_what_is_visible_of_a_transaction_says_that_it_had_committed(visible, is_committed):
    """A record of one of its flows, or one of its dead letters, where it had nothing else."""
    assert settled(Central(of_ledger(AFTER), visible=visible)) == {LEDGER: is_committed}


@pytest.mark.parametrize(
    ("backfill", "visible", "is_committed"),
    [
        ("b1", {}, False),
        ("b1", {ORDERS: [delivered(12, backfill="b1")]}, True),
        ("b1", {ORDERS: [delivered(12, backfill="b2")]}, False),
        ("b1", {ORDERS: [delivered(12)]}, False),
        ("b1", {LETTERS: [letter(13, backfill="b1")]}, True),
        ("b1", {LETTERS: [record(*encode_resolution(FLOW, 13, 7, "b1", "delivered"))]}, True),
        ("b1", {LETTERS: [record(*encode_resolution(FLOW, 13, 7, "b2", "delivered"))]}, False),
        ("b2", {ORDERS: [delivered(12, backfill="b2")]}, True),
    ],
)
def test_a_backfills_ledger_is_settled_by_what_that_backfill_wrote(backfill, visible, is_committed):
    """Whoever settles it: all share one ledger. Offsets count, since a backfill reads several incarnations in turn."""
    found = settled(Central(of_ledger(AFTER, backfill, LATE), visible=visible, ledger=None), LATE)
    assert found == {(LATE.ledger, 0): is_committed}


def test_letters_are_asked_about_where_there_were_any():
    """Searching them all for a flow without one would take long."""
    entry = structs.replace(AFTER, dead=0, delivered=15)
    assert settled(Central(of_ledger(entry), visible={LETTERS: [letter(14)]})) == {LEDGER: False}


@pytest.mark.parametrize("hidden", [ORDERS, LETTERS])
@pytest.mark.parametrize(
    ("owner", "other", "advice"),
    [
        (WHOSE, delivered(3, backfill="b7"), "of backfill b7; `aggregator backfill settle` ends it"),
        (LATE, delivered(3), "of the hub's live flows"),
        (WHOSE, record("k", b"v"), "of another producer"),
    ],
)
def test_nothing_is_judged_by_what_another_producer_may_hide(hidden, owner, other, advice):
    """No epoch opens, and the sentence says whose transaction it is."""
    if hidden == LETTERS:
        other = {"b7": letter(3, "b7"), "": letter(3)}[dict(other.headers).get("hub.backfill", b"").decode()]
        advice = advice if owner is LATE or "b7" in advice else "holds what may have been committed"
    backfill = "b1" if owner is LATE else ""
    central = Central({**of_ledger(AFTER, backfill, owner), hidden: (other, True)}, stuck=[hidden])
    with pytest.raises(Unreachable, match=re.escape(advice)):
        settled(central, owner, [hidden])
    assert central.written == {}


def test_what_is_visible_counts_though_something_else_is_hidden():
    """One record is proof enough."""
    central = Central(of_ledger(AFTER), visible={ORDERS: [delivered(12)]}, stuck=[LETTERS])
    assert settled(central) == {LEDGER: True}


@pytest.mark.parametrize(
    ("ledger", "seen", "is_committed"),
    [(BEFORE, [], False), (AFTER, [], True), (BEFORE, [delivered(12)], True)],
)
def test_a_decision_had_committed_with_its_ledger_record(ledger, seen, is_committed):
    """It would move its flow at the next opening, over what was never passed; the ledger is settled first."""
    undecided = {REQUESTS: (record(*encode(DECISION)), True), **of_ledger(AFTER)}
    if ledger == AFTER:
        del undecided[LEDGER]
    assert settled(Central(undecided, ledger=ledger, visible={ORDERS: seen}))[REQUESTS] is is_committed


def test_a_decision_of_a_backfill_moves_nothing():
    """Nobody reads it."""
    at = (LATE.requests, 0)
    assert settled(Central({at: (record(*encode(DECISION)), True)}), LATE) == {at: False}


@pytest.mark.parametrize("at", [LEDGER, REQUESTS])
def test_a_key_that_is_no_text_is_no_crash(at):
    """Anybody may write there; in the ledger it is refused by name, as everywhere."""
    central = Central({at: (CentralRecord(b"\xff", b"x", 0, ()), True)})
    if at == LEDGER:
        with pytest.raises(FatalError, match=re.escape("the ledger record of \\xff is of no flow")):
            settled(central)
        return
    assert settled(central) == {at: False}


class Opening(Central):
    """The same, with all that opening an epoch needs; a tombstone of a note is visible only if it is said."""

    def __init__(self, *args, is_gone=True, refused=(), silent=(), **more):
        super().__init__(*args, **more)
        self.is_gone, self.refused, self.silent, self.targets = is_gone, refused, silent, frozenset()
        self.epoch, self.asked = EPOCH, []

    def read_undecided(self, partitions):
        self.asked.append(set(partitions))
        return {at: offsets for at, offsets in super().read_undecided(partitions).items() if at not in self.silent}

    def publish(self, *entries):
        self.epoch = next((one for one in entries if isinstance(one, Epoch)), self.epoch)
        super().publish(*(one for one in entries if isinstance(one, UndecidedRange)))

    def read_control(self):
        return ControlState(epoch=self.epoch, undecided=dict(self.notes), targets=self.targets)

    def fence(self, _slots):
        """Nobody is there."""

    def rewrite_records(self, noted, records):
        if (noted.topic, noted.partition) in self.refused:
            raise TransactionAborted("too large")
        super().rewrite_records(noted, records)
        if self.is_gone:
            del self.notes[noted.topic, noted.partition]

    def read_ledger(self):
        return self.visible_ledger("")


def test_an_epoch_opens_above_all_that_the_ledger_knows():
    """Below, its records would lose to older ones; ids that are not fenced may be those of slots that still commit."""
    central = Opening({}, ledger=structs.replace(BEFORE, epoch=99))
    central.partitions = lambda topics: [(topic, at) for topic in topics for at in range(5)]
    opened = open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE)
    assert opened.epoch.epoch > 99
    assert opened.epoch.ids == 5


def test_a_rival_whose_epoch_the_ledger_has_is_not_overtaken():
    """It has opened one between this driver's look at control and its look at the ledger."""
    central = Opening({}, ledger=structs.replace(BEFORE, epoch=99))
    ledger = central.read_ledger()
    central.read_ledger = lambda: setattr(central, "epoch", Epoch(99, 1, 1, "another")) or ledger
    with pytest.raises(Fenced, match="was overtaken by another driver"):
        open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE)


@pytest.mark.parametrize("is_gone", [True, False])
def test_no_slot_starts_before_a_note_is_visibly_gone(is_gone):
    """One that comes back with another driver is judged by a ledger that moved on, perhaps through another topic."""
    central = Opening({ORDERS: (delivered(12), True)}, is_gone=is_gone)
    if is_gone:
        assert open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE).held == {}
        return
    with pytest.raises(Unreachable, match=r"eu\.orders-0 at central: the note"):
        open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE)


def test_a_partition_that_refuses_what_is_written_again_is_held_alone():
    """A topic that takes smaller records since, say: every other flow of the hub goes on, and the note stays."""
    other = ("us.orders", 0)
    central = Opening({ORDERS: (delivered(7), True), other: (delivered(8), True)}, refused=[ORDERS])
    held = open_epoch(central, slots=1, driver="d", partitions=[ORDERS, other], owner=WHOSE).held
    assert held.keys() == central.read_control().undecided.keys() == {ORDERS}
    assert re.search("eu.orders-0: .* too large", held[ORDERS])
    assert central.written == {other: [delivered(8)]}


@pytest.mark.parametrize(
    ("undecided", "asked"),
    [({}, {ORDERS}), (of_ledger(AFTER), {ORDERS, OTHERS}), ({OTHERS: (delivered(3), True)}, {ORDERS})],
)
def test_every_partition_is_asked_about_where_the_ledger_is_undecided(undecided, asked):
    """Of very many partitions those are asked about that slots named; what proves a transaction may lie in any."""
    central = Opening(undecided)
    open_epoch(central, slots=1, driver="d", partitions={ORDERS, OTHERS}, owner=WHOSE, asked={ORDERS})
    assert set.union(*central.asked) & {ORDERS, OTHERS} == asked


class FallsSilent(Central):
    """A partition that answers no more once it was asked for the last time."""

    def read_undecided(self, partitions):
        return {} if ORDERS in self.visible else super().read_undecided(partitions)


def test_nothing_is_written_again_behind_an_end_that_nobody_told():
    """What an attempt before this one wrote again may lie there: the note stays, and the partition is held."""
    note = {ORDERS: OffsetRange(5, 6)}
    silent = FallsSilent({ORDERS: (delivered(3), False)}, visible={ORDERS: []})
    held = rewrite_missing(silent, OpenTransactions(note, {}), note, ledger={FLOW: BEFORE}, owner=WHOSE)
    assert "does not answer" in held[ORDERS]
    assert silent.written == {}
    told = Central({ORDERS: (delivered(3), False)})
    assert rewrite_missing(told, OpenTransactions(note, {}), note, ledger={FLOW: BEFORE}, owner=WHOSE) == {}
    assert told.written == {ORDERS: [delivered(3)]}


@pytest.mark.parametrize(("now", "held"), [("us.orders", {ORDERS}), ("eu.orders", set())])
def test_a_silent_partition_of_a_former_rule_is_named(now, held):
    """No slot's gate asks about it any more, and nobody knows what it hides."""
    central, target = Opening({}, silent=[ORDERS]), Target("eu", "orders", now)
    central.targets = frozenset({target, Target("eu", "orders", ORDERS[0])})
    opened = open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE, targets=[target])
    assert opened.held.keys() == held


class Behind(Central):
    """One partition: the hub's own record at offset 5, and that of another producer that stays open at offset 7."""

    def read_undecided(self, partitions):
        _, is_open = self.left[ORDERS]
        return {at: OffsetRange(5 if is_open else 7, 8) if at == ORDERS else OffsetRange(5, 5) for at in partitions}

    def read_records(self, at, offsets, *, committed):
        return [] if committed else [[delivered(12)], [record("k", b"v")]][offsets.start > 5]


def test_the_sentence_is_about_the_transaction_that_holds_the_rest_back():
    """The hub's own is ended: what a person may do is to ask the other's owner, not to abort what is settled."""
    found = abort_open_transactions(Behind({ORDERS: (delivered(12), True)}), EPOCH, [ORDERS], notes={}, owner=WHOSE)
    assert found.noted == {ORDERS: OffsetRange(5, 8)}
    assert "undecided from offset 7 on, of another producer" in found.left[ORDERS]


class Refusing:
    """A producer whose commits are refused, so often."""

    def __init__(self, times):
        self.times, self.said = times, []

    def check_credentials_changed(self):
        return False

    def begin(self):
        self.said.append("begin")

    def produce(self, _topic, key, value, *, partition):
        self.said.append(f"{'note' if value else 'tombstone'} {key.split('/')[0]}" if partition == 0 else "")

    def commit(self):
        self.times -= 1
        if self.times >= 0:
            raise TransactionAborted("refused")
        self.said.append("commit")

    def abort(self):
        self.said.append("abort")


@pytest.mark.parametrize("refused", [1, 2])
def test_nothing_commits_behind_a_note_that_was_refused(refused):
    """The tombstone of the note may be undecided, and the next commit to the control topic would decide it."""
    central, writer = KafkaDriverCentral.__new__(KafkaDriverCentral), Refusing(refused)
    central._writer, central._lock, central._names, central._lost = writer, threading.Lock(), NAMES, ""
    central._ids, central._renew_from_s, central._driver = 1, 0.0, ""
    with pytest.raises(TransactionAborted if refused == 1 else OutcomeUnknown):
        central.rewrite_records(UndecidedRange("eu.orders", 0, 3, 9), [])
    if refused == 1:
        central.publish(Lease("d", 7))
        assert writer.said[-1] == "commit"
        return
    with pytest.raises(OutcomeUnknown, match=r"eu\.orders-0 could not be noted"):
        central.publish(Lease("d", 7))
    assert "commit" not in writer.said


class Purging:
    """A producer that sends nothing of a transaction in which one partition refuses its record."""

    def __init__(self, refusing):
        self.refusing, self.queued, self.arrived = refusing, [], {}

    def check_credentials_changed(self):
        return False

    def begin(self):
        self.queued = []

    def produce_all(self, topic, partition, _records):
        self.queued.append((topic, partition))

    def flush(self):
        if self.refusing not in self.queued:
            self.arrived |= {at: len(self.arrived) for at in self.queued}

    def abort(self):
        self.queued = []

    def acknowledged(self, at):
        return self.arrived.get(at)


def test_a_partition_that_refuses_its_record_keeps_no_other_from_being_ended():
    """Two of 25 times that was so on a broker, whose ledger stayed undecided beside a topic that took it no more."""
    central, writer = KafkaDriverCentral.__new__(KafkaDriverCentral), Purging(ORDERS)
    central._writer, central._lock, central._renew_from_s = writer, threading.Lock(), 0.0
    central.read_control = ControlState
    central.end_undecided({ORDERS: delivered(7), LEDGER: delivered(8), LETTERS: letter(9)}, [], allowed=lambda _: None)
    assert writer.arrived.keys() == {LEDGER, LETTERS}


def test_a_driver_gives_no_number_twice():
    """Another slot of its own may have the first one, and what it wrote would count as this epoch's."""
    central = Opening({})
    central.epoch = None  # the control topic was deleted
    assert open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE, above=41).epoch.epoch == 42


@pytest.mark.parametrize(
    ("ledger", "control", "partitions", "what"),
    [
        (LAST_EPOCH, 7, 1, f"names epoch {LAST_EPOCH}, and none can follow it"),
        (LAST_EPOCH, LAST_EPOCH, 1, f"^h.ledger names epoch {LAST_EPOCH}, and none can follow it"),
        (7, LAST_EPOCH, 1, f"control topic beside h.ledger names epoch {LAST_EPOCH}, and the ledger's newest is 7"),
        (7, LAST_EPOCH - 1, 1, "and the ledger's newest is 7"),
        (7, 7, 5000, "has 5000 partitions, and a hub has 4096 slots at most"),
    ],
)
def test_what_nobody_could_read_is_not_published(ledger, control, partitions, what):
    """The hub would not start any more, and what its slots had written would be damaged."""
    central = Opening({}, ledger=structs.replace(BEFORE, epoch=ledger))
    central.epoch = Epoch(control, 1, 1, "d")
    central.partitions = lambda topics: [(topic, at) for topic in topics for at in range(partitions)]
    with pytest.raises(FatalError, match=what) as refused:
        open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE)
    assert "find out who did" in refused.value.hint
    assert central.epoch.epoch in (control, control + 1), "one above what control named, at most"
    assert (central.epoch.epoch, central.epoch.ids) <= (LAST_EPOCH, 4096)


@pytest.mark.parametrize("above", [-1, LAST_EPOCH - 1])
def test_what_the_hint_about_a_forged_epoch_says_can_be_done(above):
    """Whatever the driver itself has read of the control topic before: the ledger decides."""
    central = Opening({}, ledger=structs.replace(BEFORE, epoch=7))
    central.epoch = Epoch(LAST_EPOCH - 1, 1, 1, "somebody")
    with pytest.raises(FatalError) as refused:
        open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE, above=above)
    central.epoch = Epoch(int(re.search(r"with number (\d+)", refused.value.hint)[1]), 1, 1, "by hand")
    assert open_epoch(central, slots=1, driver="d", partitions=[ORDERS], owner=WHOSE).epoch.epoch == 8
