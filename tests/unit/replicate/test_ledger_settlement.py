"""What is undecided in the ledger and the requests is settled by what is visible of the same transaction."""

import threading

import pytest
from msgspec import structs

from aggregator.coordinates import EdgePartition, OffsetRange, Position
from aggregator.errors import OutcomeUnknown, TransactionAborted
from aggregator.kafka.open_range import CentralRecord
from aggregator.replicate.kafka_ports import KafkaDriverCentral
from aggregator.replicate.ledger_settlement import settle_ledger
from aggregator.replicate.settlement import Whose
from aggregator.state.control import ControlState, Epoch, Lease, Undecided
from aggregator.state.gap import Decision, Gap, GapKind
from aggregator.state.ledger import LedgerRecord, flow_key
from aggregator.state.names import HubNames
from aggregator.state.requests import encode

NAMES = HubNames("h")
FLOW = EdgePartition("eu", "orders", 0)
BEFORE = LedgerRecord(0, "id", 10, 3, 0, delivered=10)
AFTER = structs.replace(BEFORE, next_offset=15, dead=5)
WHOSE = Whose("h", "", NAMES.dead_letters, NAMES.ledger, NAMES.requests)
EPOCH = Epoch(4, 1, 1, "me")
LEDGER, REQUESTS = (NAMES.ledger, 0), (NAMES.requests, 0)
DECISION = Decision(FLOW, Position(0, 10), Gap(GapKind.EXPIRED, 10, 15, 7), "the rule", 9, "r", automatic=True)


class Central:
    """A cluster in which each partition given is undecided, with these records, and visible is what else is said."""

    def __init__(self, undecided, *, ledger=BEFORE, letter=None, record=None):
        self.left, self.ledger, self.letter, self.record = dict(undecided), ledger, letter, record
        self.notes, self.written, self.now_s = {}, {}, 0.0

    def undecided(self, places):
        return {at: OffsetRange(5, 5 + bool(at in self.left and self.left[at][1])) for at in places}

    def records(self, at, _offsets, *, committed):
        return [] if committed else [self.left[at][0]]

    def end_undecided(self, records, _slots, *, allowed):
        allowed(self.control())
        self.left |= {at: (self.left[at][0], False) for at in records}

    def publish(self, entry):
        self.notes[entry.topic, entry.partition] = OffsetRange(entry.start, entry.end)

    def control(self):
        return ControlState(epoch=EPOCH, undecided=self.notes)

    def visible_ledger(self):
        moved = [one for one in self.written.get(LEDGER, ()) if one.key == flow_key(FLOW).encode()]
        return {FLOW: AFTER if moved else self.ledger}

    def newest(self, _source, *, letters):
        return max((one for one in (self.record, self.letter if letters else None) if one), default=None)

    def write_again(self, noted, records):
        self.written[noted.topic, noted.partition] = list(records)

    def now(self):
        return self.now_s

    def sleep(self, seconds):
        self.now_s += seconds


def record(key, value):
    return CentralRecord(key.encode(), value, 0, ())


def settled(central):
    settle_ledger(central, EPOCH, {}, WHOSE)
    return {at: bool(records) for at, records in central.written.items()}


@pytest.mark.parametrize(
    ("visible", "is_committed"),
    [
        ({}, False),
        ({"record": Position(0, 12)}, True),
        ({"record": Position(0, 9)}, False),
        ({"letter": Position(0, 14)}, True),
        ({"letter": Position(0, 9)}, False),
    ],
)
def test_what_is_visible_of_a_transaction_says_that_it_had_committed(visible, is_committed):
    """A record of one of its flows, or one of its dead letters, where it had nothing else."""
    central = Central({LEDGER: (record(flow_key(FLOW), AFTER.encode()), True)}, **visible)
    assert settled(central) == {LEDGER: is_committed}


def test_letters_are_asked_about_where_there_were_any():
    """Searching them all for a flow without one would take long."""
    entry = structs.replace(AFTER, dead=0, delivered=15)
    central = Central({LEDGER: (record(flow_key(FLOW), entry.encode()), True)}, letter=Position(0, 14))
    assert settled(central) == {LEDGER: False}


@pytest.mark.parametrize(
    ("ledger", "record_seen", "is_committed"),
    [(BEFORE, None, False), (AFTER, None, True), (BEFORE, Position(0, 12), True)],
)
def test_a_decision_had_committed_with_its_ledger_record(ledger, record_seen, is_committed):
    """It would move its flow at the next opening, over what was never passed; the ledger is settled first."""
    undecided = {REQUESTS: (record(*encode(DECISION)), True), LEDGER: (record(flow_key(FLOW), AFTER.encode()), True)}
    if ledger == AFTER:
        del undecided[LEDGER]
    central = Central(undecided, ledger=ledger, record=record_seen)
    assert settled(central)[REQUESTS] is is_committed


class Refusing:
    """A producer whose commits are refused, so often."""

    def __init__(self, times):
        self.times, self.said = times, []

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
    central = KafkaDriverCentral.__new__(KafkaDriverCentral)
    central._writer, central._lock, central._names, central._lost = Refusing(refused), threading.Lock(), NAMES, ""
    with pytest.raises(TransactionAborted if refused == 1 else OutcomeUnknown):
        central.write_again(Undecided("eu.orders", 0, 3, 9), [])
    if refused == 1:
        central.publish(Lease("d", 7))
        assert central._writer.said[-1] == "commit"
        return
    with pytest.raises(OutcomeUnknown, match=r"eu\.orders-0 could not be noted"):
        central.publish(Lease("d", 7))
    assert "commit" not in central._writer.said
