"""The rules of the exactly-once protocol, one by one, on real brokers and without Spark; the lease is in test_lease.py.

Every fault is either real (a refused batch, a time-out, a taken id) or breaks the real world at one named point.
"""

import threading
import time

import pytest
from confluent_kafka import Producer

from aggregator.coordinates import EdgePartition
from aggregator.errors import FatalError, Fenced, OutcomeUnknown, TransactionAborted
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log import read_to_end
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import PollResult
from aggregator.kafka.writers import writer
from aggregator.kafka.writers.writer import TransactionalWriter
from aggregator.observe.status import hub_status
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.leadership.kafka_central import KafkaDriverCentral
from aggregator.replicate.leadership.settlement import TransactionOwner
from aggregator.replicate.slot import slot as slots
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from aggregator.state.control import ControlState, Epoch
from aggregator.state.ledger import LedgerRecord
from tests.epochs import Epochs
from tests.trial import incompressible, read_all, wait_for

pytestmark = pytest.mark.brokers


@pytest.fixture
def small_polls(monkeypatch):
    """Many small transactions out of few records."""
    monkeypatch.setattr(slots, "POLL_RECORDS", 10)


class Crash(BaseException):
    """The end of a process, as far as one thread can die like one."""


def central_topic(epochs) -> str:
    return f"eu.{epochs.trial.topic}"


def set_largest_record(epochs, size: int) -> None:
    """Let central refuse batches over `size` bytes in the copy of the edge `eu`."""
    epochs.trial.configure("central", central_topic(epochs), "max.message.bytes", str(size))


def world_of(writer_kind):
    """A real world whose slots write through `writer_kind`."""

    class World(KafkaSlotPorts):
        def open_writer(self):
            return writer_kind(self._config.central, self._names.slot_id(self._slot), batch_bytes=self._batch_bytes)

    return World


def test_rule_a_record_dead_letter_and_ledger_commit_together(epochs):
    """Rules A and F: an aborted transaction leaves no record, dead letter or position; after it all come, once."""
    trial = epochs.trial
    central = trial.sandbox.central.bootstrap
    trial.produce_raw(
        "eu", [(b"a", trial.value(0), 0), (incompressible(2000), trial.value(1), 1), (b"c", b"poison", 2)]
    )
    (plan,) = epochs.plans(commit_policy=CommitPolicy(interval_s=2, limit_bytes=1_000_000, linger_s=2))
    set_largest_record(epochs, 500)
    running = epochs.start(plan)
    wait_for(
        lambda: read_all(central, central_topic(epochs), "read_uncommitted"), timeout=30, what="a refused transaction"
    )
    assert trial.central_records("eu") == []
    assert trial.letters() == []
    assert {(body["next_offset"], body["delivered"], body["dead"]) for _, _, body in epochs.ledger_log()} == {(0, 0, 0)}
    set_largest_record(epochs, 1_048_588)
    assert running.outcome().result == "stopped", "another limit is another plan"
    (again,) = epochs.plans()
    assert epochs.run(again).result == "drained"
    trial.check_exactly_once("eu", 2, lake=False)
    assert [(letter["partition"], letter["offset"]) for letter in trial.letters()] == [(2, 0)]
    counted = {flow: (body["delivered"], body["dead"]) for flow, body in trial.ledger().items()}
    assert [counted["eu", p] for p in range(3)] == [(1, 0), (1, 0), (0, 1)]


def test_the_time_of_a_refusal_is_not_an_edge_s_silence(epochs):
    """Rule F: a drain whose transaction was refused for longer than its patience reads the edge again."""
    trial = epochs.trial

    class RefusedOnce(TransactionalWriter):
        commits = 0

        def commit(self):
            RefusedOnce.commits += 1
            if RefusedOnce.commits == 2:  # the first holds the first positions
                raise TransactionAborted("the test refuses")
            super().commit()

    class SlowToAnswer(EdgeReader):
        def assign(self, *positions):
            super().assign(*positions)
            self.polls = 0

        def poll(self, max_records, wait_s):
            self.polls += 1
            return super().poll(max_records, wait_s) if self.polls > 3 else PollResult()

    class World(world_of(RefusedOnce)):
        slept = 0.0

        def open_reader(self, edge):
            return SlowToAnswer(epochs.config.edges[edge], buffer_bytes=1_000_000)

        def now(self):
            return super().now() + self.slept

        def sleep(self, seconds):
            super().sleep(min(seconds, 0.002))  # a marker takes its time, whatever this clock says
            self.slept += 60 if seconds >= 0.02 else 0

    trial.produce("eu", 3)
    (plan,) = epochs.plans()
    assert epochs.run(plan, World).result == "drained"
    assert RefusedOnce.commits > 2
    trial.check_exactly_once("eu", 3, lake=False)


def test_rule_b_an_epoch_opens_in_order(epochs):
    """Rule B: published and read back before ids are fenced, and the ledger is read last, with what came between."""
    flow, calls = EdgePartition("eu", "t", 0), []

    def old_slot_commits(offset):
        old.begin()
        old.produce(epochs.names.ledger, str(flow), LedgerRecord(0, "id", offset, 0, 0).encode(), partition=0)
        old.commit()

    class Watched(KafkaDriverCentral):
        def publish(self, entry):
            calls.append("publish")
            super().publish(entry)

        def read_control(self):
            calls.append("control")
            return super().read_control()

        def fence(self, slots):
            calls.append("fence")
            old_slot_commits(7)
            super().fence(slots)

        def read_ledger(self):
            calls.append("ledger")
            return super().read_ledger()

    owner = TransactionOwner.of_live_flows(epochs.names)
    open_epoch(epochs.driver(KafkaDriverCentral), slots=1, driver="c", partitions=(), owner=owner)
    central = epochs.driver(Watched)
    old = epochs.producer(epochs.names.slot_id(0))
    _, ledger, _ = open_epoch(central, slots=1, driver="d", partitions=(), owner=owner)
    assert calls == ["control", "publish", "control", "fence", "ledger"]
    assert ledger[flow].next_offset == 7, "a commit just before the fencing is read"
    with pytest.raises(Fenced):
        old_slot_commits(9)


def test_rule_b_ids_of_a_wider_earlier_epoch_are_fenced(trial):
    """Rule B: `ids` is carried, so a zombie of a slot that later epochs do not have cannot commit."""
    epochs = Epochs(trial, slots=3)
    open_epoch(epochs.central, slots=3, driver="d", partitions=(), owner=TransactionOwner.of_live_flows(epochs.names))
    zombies = [epochs.producer(epochs.names.slot_id(slot)) for slot in (1, 2)]

    def commit(zombie, slot):
        zombie.begin()
        zombie.produce(epochs.names.ledger, "eu/t/0", LedgerRecord(0, "id", 9, 0, slot).encode(), partition=slot)
        zombie.commit()

    narrow, *_ = open_epoch(
        epochs.central, slots=1, driver="d", partitions=(), owner=TransactionOwner.of_live_flows(epochs.names)
    )
    with pytest.raises(Fenced):
        commit(zombies[0], 1)
    commit(epochs.producer(epochs.names.slot_id(1)), 1)
    later, ledger, _ = open_epoch(
        epochs.central, slots=1, driver="d", partitions=(), owner=TransactionOwner.of_live_flows(epochs.names)
    )
    with pytest.raises(Fenced):
        commit(zombies[1], 2)
    assert (narrow.ids, later.ids) == (3, 3)
    assert {flow.topic: entry.slot for flow, entry in ledger.items()} == {"t": 1}, "every partition is read"
    epochs.close()


def test_rule_b_an_overtaken_epoch_is_not_opened(epochs):
    """Rule B's read-back: a driver that another one overtakes while it opens an epoch fences nobody."""

    class Overtaken(KafkaDriverCentral):
        def publish(self, *entries):
            super().publish(*entries)
            epochs.driver().publish(Epoch(entries[0].epoch + 1, 1, 1, "other"))

        def fence(self, slots):
            raise AssertionError("fenced after it was overtaken")

    with pytest.raises(Fenced, match="overtaken"):
        open_epoch(
            epochs.driver(Overtaken),
            slots=1,
            driver="d",
            partitions=(),
            owner=TransactionOwner.of_live_flows(epochs.names),
        )
    with pytest.raises(Fenced):
        epochs.central.publish(Epoch(9, 1, 1, "zombie"))


def test_rule_c_a_slot_of_an_older_epoch_delivers_nothing(epochs):
    """Rule C: control is read after init, so an epoch opened at the last moment is seen; the first look is courtesy."""
    trial = epochs.trial
    trial.produce("eu", 9)
    (plan,) = epochs.plans()
    opened = []

    class Late(TransactionalWriter):
        def open(self):
            super().open()
            opened.append(epochs.central.publish(Epoch(plan.epoch + 1, 1, 1, "test")))

    class Blind(world_of(Late)):
        def poll_control(self):
            return ControlState()

    assert epochs.run(plan, Blind).result == "superseded"
    assert len(opened) == 1
    assert epochs.run(plan).result == "superseded", "the courtesy look"
    assert trial.central_records("eu") == []
    assert epochs.ledger_log() == []


def test_rule_c_only_ledger_records_of_this_epoch_count(epochs):
    """Rule C: in its own partition a slot overlooks what another epoch wrote; the driver's assignment holds."""
    trial = epochs.trial
    trial.produce("eu", 30)
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    trial.produce("eu", 30)
    (plan,) = epochs.plans()
    stale = next(body for _, flow, body in epochs.ledger_log() if flow == ("eu", trial.topic, 0))
    assert (stale["epoch"], stale["next_offset"]) == (plan.epoch - 1, 0)
    other = epochs.producer(f"{trial.hub}.stray")
    other.begin()
    entry = LedgerRecord(0, stale["topic_id"], 3, plan.epoch - 1, 0).encode()
    other.produce(epochs.names.ledger, f"eu/{trial.topic}/0", entry, partition=0)
    other.commit()
    assert epochs.run(plan).result == "drained"
    trial.check_exactly_once("eu", 60, lake=False)


@pytest.mark.usefixtures("small_polls")
def test_rule_c_a_retried_task_goes_on_where_its_epoch_committed(epochs):
    """Rule C and fault 2: a task that died is run again with the same plan, and its own commits count."""
    trial = epochs.trial
    trial.produce("eu", 120)
    (plan,) = epochs.plans()
    commits = []

    class Dies(TransactionalWriter):
        def commit(self):
            commits.append(1)
            if len(commits) == 5:
                raise Crash
            super().commit()

    with pytest.raises(Crash):
        epochs.run(plan, world_of(Dies))
    committed = len(trial.central_records("eu"))
    assert 0 < committed < 120, "the crash lies in the middle"
    assert epochs.run(plan).result == "drained"
    trial.check_exactly_once("eu", 120, lake=False)


def test_rule_d_the_first_position_is_written_before_the_first_poll(new_trial):
    """Rule D: with `start: latest` what is written after the first start is delivered, even if no poll ever ran."""
    trial = new_trial(start="latest")
    epochs = Epochs(trial)
    trial.produce("eu", 30)
    (plan,) = epochs.plans()

    def crash(*_):
        raise Crash

    class NeverPolls(KafkaSlotPorts):
        def open_reader(self, edge):
            made = super().open_reader(edge)
            made.assign = crash
            return made

    with pytest.raises(Crash):
        epochs.run(plan, NeverPolls)
    assert {b["next_offset"] for _, flow, b in epochs.ledger_log() if flow.edge == "eu"} == {10}
    trial.produce("eu", 15)
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    assert sorted(trial.numbers("eu")) == list(range(30, 45))
    epochs.close()


def test_rule_d_a_slot_writes_and_awaits_its_own_partition_only(new_trial):
    """Rule D: two slots write a ledger partition each, and a neighbour's open transaction holds up nobody else."""
    trial = new_trial(slots=2)
    epochs = Epochs(trial, slots=2)
    trial.produce("eu", 60)
    trial.produce("us", 60)
    plans = epochs.plans()
    assert all(plan.flows for plan in plans)
    assert epochs.run(plans[0]).result == "drained"
    neighbour = epochs.producer(epochs.names.slot_id(0))
    neighbour.begin()
    neighbour.produce(epochs.names.ledger, "eu/t/0", LedgerRecord(0, "id", 1, 0, 0).encode(), partition=0)
    wait_for(lambda: _end_is_held(epochs, epochs.names.ledger, 0), timeout=10, what="the open transaction")
    assert epochs.run(plans[1]).result == "drained"
    assert _end_is_held(epochs, epochs.names.ledger, 0), "the neighbour was open all the time"
    neighbour.abort()
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, 60, lake=False)
    written = epochs.ledger_log()
    assert {partition for partition, _, _ in written} == {0, 1}
    assert all(body["slot"] == partition for partition, _, body in written)
    epochs.close()


def _end_is_held(epochs, topic, partition) -> bool:
    at = [(topic, partition)]
    central = epochs.config.central
    return ends.stable_end_offsets(central, at) != ends.log_end_offsets(central, at)


def test_rule_e_a_fenced_slot_ends_with_a_value(epochs):
    """Rule E: a slot whose id is taken ends normally as `fenced`, and the next epoch delivers what it could not."""
    trial = epochs.trial
    trial.produce("eu", 30)
    (plan,) = epochs.plans(drain=False)
    running = epochs.start(plan)
    wait_for(lambda: len(trial.central_records("eu")) == 30, timeout=30, what="the first delivery")
    epochs.producer(epochs.names.slot_id(0))
    trial.produce("eu", 30)
    assert running.outcome().result == "fenced"
    assert len(trial.central_records("eu")) == 30
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    trial.check_exactly_once("eu", 60, lake=False)


def test_rule_e_fencing_is_seen_wherever_it_surfaces(epochs):
    """Rule E: a producer that learns of its fencing in the background says so at its next `produce`, too."""
    old = epochs.producer(epochs.names.slot_id(0))
    epochs.producer(epochs.names.slot_id(0))
    old.begin()

    def produce():
        old.produce(epochs.names.ledger, "k", b"v", partition=0)

    with pytest.raises(Fenced):
        wait_for(produce, timeout=20, what="the fencing")


@pytest.mark.usefixtures("small_polls")
@pytest.mark.parametrize("arrives", [True, False], ids=["the answer is lost", "the request is lost"])
def test_rule_f_an_unknown_outcome_is_decided_by_a_fresh_producer(epochs, arrives):
    """Rule F: after a commit without an answer the producer is never used again, and nothing is lost or doubled."""
    trial = epochs.trial
    trial.produce("eu", 120)
    (plan,) = epochs.plans()
    made = []

    class Unanswered(TransactionalWriter):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)
            self.commits, self.unknown = 0, False

        def begin(self):
            assert not self.unknown, "used after an unknown outcome"
            super().begin()

        def commit(self):
            self.commits += 1
            self.unknown = len(made) <= 3 and self.commits == len(made)
            if arrives or not self.unknown:
                super().commit()
            if self.unknown:
                raise OutcomeUnknown("no answer")

    assert epochs.run(plan, world_of(Unanswered)).result == "drained"
    assert [one.unknown for one in made] == [True, True, True, False]
    trial.check_exactly_once("eu", 120, lake=False)


@pytest.mark.usefixtures("small_polls")
def test_rule_f_a_real_time_out_of_a_commit_is_unknown(epochs, monkeypatch):
    """Rule F: librdkafka's own time-out of a commit under way counts as unknown, whichever way it went."""
    trial = epochs.trial
    trial.produce("eu", 120)
    (plan,) = epochs.plans()
    made = []

    class Impatient(TransactionalWriter):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

        def commit(self):
            monkeypatch.setattr(writer, "COMMIT_TIMEOUT_S", 0.001 if len(made) <= 4 else 30.0)
            super().commit()

    assert epochs.run(plan, world_of(Impatient)).result == "drained"
    assert len(made) > 1, "no commit timed out: the trial is void"
    trial.check_exactly_once("eu", 120, lake=False)


def test_to_its_end_waits_for_an_open_transaction(epochs):
    """To its end: what is visible is not enough; a stuck end is an error that names topic and partition."""
    central, ledger = epochs.config.central, epochs.names.ledger
    other = epochs.producer(f"{epochs.trial.hub}.stray")
    other.begin()
    other.produce(ledger, "k", b"v", partition=0)
    wait_for(lambda: _end_is_held(epochs, ledger, 0), timeout=10, what="the open transaction")
    with pytest.raises(FatalError, match=ledger):
        read_to_end(central, ledger, [0], timeout_s=0.5)
    found = []
    reading = threading.Thread(target=lambda: found.extend(read_to_end(central, ledger, [0])))
    reading.start()
    time.sleep(0.5)
    assert reading.is_alive(), "it went on with what was visible"
    other.commit()
    reading.join(20)
    assert [record.key for record in found] == ["k"]


def test_to_its_end_sees_every_commit_that_returned(epochs):
    """To its end: `commit_transaction` returns before its marker is visible; 200 commits, each read back at once."""
    central, ledger = epochs.config.central, epochs.names.ledger
    other = epochs.producer(f"{epochs.trial.hub}.stray")
    not_yet_visible = 0
    for number in range(200):
        other.begin()
        other.produce(ledger, str(number), b"v", partition=0)
        other.commit()
        if number % 2:
            not_yet_visible += _end_is_held(epochs, ledger, 0)
        else:
            assert len(read_to_end(central, ledger, [0])) == number + 1
    assert not_yet_visible, "every commit was visible at once: the trial is void"


def test_markers_and_aborted_records_are_passed(epochs):
    """Positions: end-of-partition moves a position past markers and aborted records, so lag reaches 0."""
    trial = epochs.trial
    edge = Producer(
        {"bootstrap.servers": trial.sandbox.edges["eu"].bootstrap, "transactional.id": f"shop-{trial.mark}"}
    )
    edge.init_transactions(20)
    for ended in (edge.commit_transaction, edge.abort_transaction):
        edge.begin_transaction()
        for number in range(5):
            edge.produce(trial.topic, trial.value(number), partition=0)
        edge.flush(20)
        ended(20)
    edge.close()
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    trial.check_exactly_once("eu", 5, lake=False)
    at = [(trial.topic, 0)]
    assert ends.log_end_offsets(epochs.config.edges["eu"], at) == {(trial.topic, 0): 12}
    status = hub_status(epochs.config, now_ms=int(time.time() * 1000))
    flow = next(f for f in status.flows if (f.edge, f.partition) == ("eu", 0))
    assert (flow.next_offset, flow.end_offset, flow.lag_records, flow.delivered) == (12, 12, 0, 5)
