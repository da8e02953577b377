"""Transactions of the hub's own ids that are left undecided at central (KAFKA-20734), and those of others.

What a dropped marker leaves behind is made here by hand: records under an id's producer, of which no coordinator knows.
"""

import json
import threading
import time
from collections import Counter

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from aggregator.backfill.settlement import is_stuck, settle_backfills
from aggregator.coordinates import EdgePartition, OffsetRange
from aggregator.kafka.cluster import topics
from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log import read_visible
from aggregator.kafka.readers.open_range import CentralRecord, read_range
from aggregator.replicate.epoch.opening import open_epoch
from aggregator.replicate.leadership.settlement import TransactionOwner
from aggregator.replicate.slot import partition_guard
from aggregator.replicate.slot.commit_policy import CommitPolicy
from aggregator.state.dead_letters import letter_key
from aggregator.state.ledger import winners
from tests.epochs import Epochs
from tests.threaded_backfills import ThreadedBackfills
from tests.trial import Trial, settle, wait_for
from tests.undecided_transactions import leave_undecided, without_verification

pytestmark = [pytest.mark.ci, pytest.mark.brokers]


@pytest.fixture(scope="module", autouse=True)
def unverified(clusters):
    """Central takes a transactional record without asking the id's coordinator, for as long as these tests last."""
    admin = AdminClient({"bootstrap.servers": clusters.central.bootstrap})
    with without_verification(admin):
        yield


@pytest.fixture
def central(epochs):
    """Central's address in the hub's configuration."""
    return epochs.config.central


def drained(epochs, **options):
    """Epochs until everything is delivered; what was held in the last."""
    outcomes = [epochs.run(plan) for plan in epochs.plans(**options)]
    assert {outcome.result for outcome in outcomes} <= {"drained"}
    return epochs.undecided


def copies(epochs, at) -> list[CentralRecord]:
    """What central shows of a partition, with its headers."""
    end = ends.stable_end_offsets(epochs.config.central, [at])[at]
    return read_range(epochs.config.central, at, OffsetRange(0, end), committed=True)


def delete_all(trial, at) -> None:
    """Take a partition's records away from central: what is written again is all that it shows."""
    settle(trial.admin("central").delete_records([TopicPartition(*at, -1)]))


def moved(record: CentralRecord, offset: int) -> CentralRecord:
    """The same record, as if it came from another offset."""
    origin = record.copy.origin._replace(offset=offset)
    headers = tuple((name, origin.encode() if name == "hub.origin" else value) for name, value in record.headers)
    return record._replace(headers=headers)


def leave(epochs, at, records, slot=0):
    """Undecided records under a slot's id; they hold the last stable offset."""
    leave_undecided(epochs.config.central.bootstrap_servers, epochs.names.slot_id(slot), at, records)
    assert len(ends.undecided_ranges(epochs.config.central, [at])[at]) == len(records)


def test_topics_that_were_just_made_hold_nothing(epochs, central):
    """Their first leaders are elected while the epoch opens: no flow is held; a slot waits where it writes."""
    specs = [TopicSpec(f"fresh-{number}.{epochs.trial.mark}", 60) for number in range(10)]
    places = topics.partitions(topics.ensure(central, specs))
    opened = open_epoch(
        epochs.central, slots=1, driver="d", partitions=places, owner=TransactionOwner.of_live_flows(epochs.names)
    )
    assert opened.held == {}
    settle(epochs.trial.admin("central").delete_topics([spec.name for spec in specs]))  # a heap for all who come later


def test_what_was_aborted_is_ended_and_not_seen(epochs, central):
    """Fault 29: records at and above the flow's position, under its slot's id: the next commit would double them."""
    trial, at = epochs.trial, (f"eu.{epochs.trial.topic}", 0)
    trial.produce("eu", 30)
    drained(epochs)
    sample, position = copies(epochs, at)[0], trial.ledger()["eu", 0]["next_offset"]
    leave(epochs, at, [moved(sample, position + more) for more in range(3)])
    trial.produce("eu", 30)
    assert drained(epochs) == {}
    trial.check_exactly_once("eu", 60, lake=False)
    assert not any(map(len, ends.undecided_ranges(central, [at]).values()))


def test_what_was_committed_is_seen_once_though_the_next_transaction_aborts(epochs):
    """Fault 29: records below the flow's position that nobody sees: the next abort would lose them."""
    trial, at = epochs.trial, (f"eu.{epochs.trial.topic}", 1)
    trial.produce("eu", 30)
    drained(epochs)
    kept = copies(epochs, at)
    delete_all(trial, at)
    assert copies_after(epochs, at) == []
    leave(epochs, at, kept)
    trial.produce("eu", 30)
    assert drained(epochs) == {}
    trial.check_exactly_once("eu", 60, lake=False)
    assert copies_after(epochs, at)[: len(kept)] == kept, "key, value, time and headers are kept"
    assert epochs.central.read_control().undecided == {}


def copies_after(epochs, at) -> list[CentralRecord]:
    """What is left of a partition of which records were deleted."""
    cluster = epochs.config.central
    start, end = ends.start_offsets(cluster, [at])[at], ends.stable_end_offsets(cluster, [at])[at]
    return read_range(cluster, at, OffsetRange(start, end), committed=True) if end > start else []


def test_a_partition_of_somebody_else_is_held_and_named_and_all_others_flow(epochs):
    """I7: an undecided transaction of another producer holds its partition's flow alone, until it is decided."""
    trial, at = epochs.trial, (f"eu.{epochs.trial.topic}", 2)
    trial.produce("eu", 30)
    drained(epochs)
    other = epochs.producer("somebody-else")
    other.begin()
    other.produce(at[0], b"key", b"of another", partition=at[1])
    other.flush()
    trial.produce("eu", 30)
    began = time.monotonic()
    held = drained(epochs)
    assert list(held) == [at]
    assert "of another producer" in held[at]
    assert time.monotonic() - began < 20
    counts = {p: entry["delivered"] for (edge, p), entry in trial.ledger().items() if edge == "eu"}
    assert counts == {0: 20, 1: 20, 2: 10}
    other.abort()
    assert drained(epochs) == {}
    trial.check_exactly_once("eu", 60, lake=False)


def test_a_ledger_record_is_settled_by_what_is_visible(epochs, central):
    """A dropped marker in the ledger: with visible records its transaction had committed, without it had not."""
    trial = epochs.trial
    trial.produce("eu", 30)
    drained(epochs)
    at = (epochs.names.ledger, 0)
    known = read_range(central, at, OffsetRange(0, ends.stable_end_offsets(central, [at])[at]), committed=True)
    flow = EdgePartition("eu", trial.topic, 0)
    last = [one for one in known if one.key == str(flow).encode()][-1]
    trial.forget(at)
    leave(epochs, at, [one for one in known if one.key != last.key] + [last])
    trial.produce("eu", 30)
    assert drained(epochs) == {}
    trial.check_exactly_once("eu", 60, lake=False)


def test_a_running_slot_does_not_write_behind_what_is_undecided(epochs):
    """Rule B within an epoch: the flow waits, others go on, and the slot asks for another epoch."""
    trial, at = epochs.trial, (f"eu.{epochs.trial.topic}", 0)
    trial.produce("eu", 30)
    drained(epochs)
    (plan,) = epochs.plans(drain=False, commit_policy=CommitPolicy(interval_s=0.1, limit_bytes=500))
    other = epochs.producer("somebody-else")
    other.begin()
    other.produce(at[0], b"key", b"of another", partition=at[1])
    other.flush()
    running = epochs.start(plan)
    trial.produce("eu", 30)
    delivered = lambda: {p: one["delivered"] for (edge, p), one in trial.ledger().items() if edge == "eu"}  # noqa: E731
    wait_for(lambda: delivered() == {0: 10, 1: 20, 2: 20}, timeout=20, what="what is not held")
    assert running.outcome(partition_guard.STUCK_S + 20).result == "stopped"
    other.abort()
    assert drained(epochs) == {}
    trial.check_exactly_once("eu", 60, lake=False)


@pytest.fixture
def late(clusters, tmp_path):
    """A hub with ten orders before its start and ten behind on each partition, and backfills that bring the first."""
    trial = Trial(clusters, tmp_path, start="latest")
    for edge in clusters.edges:
        trial.create(edge)
    epochs = Epochs(trial)
    for _ in range(2):
        for edge in clusters.edges:
            trial.produce(edge, 30)
        drained(epochs)
    yield ThreadedBackfills(trial), epochs
    epochs.close()
    trial.close()


def of_backfill(record: CentralRecord, offset: int, id_: str) -> CentralRecord:
    """The same record, as if a backfill had brought it from another offset."""
    made = moved(record, offset)
    return made._replace(headers=(*made.headers, ("hub.backfill", id_.encode())))


def leave_of_backfills(epochs, at, records):
    """Undecided records under the id of a slot of the backfills, which all of them share."""
    names = epochs.names.backfills()
    leave_undecided(epochs.config.central.bootstrap_servers, names.slot_id(0), at, records)
    assert len(ends.undecided_ranges(epochs.config.central, [at])[at]) == len(records)


@pytest.mark.parametrize("owner", ["its own", "of another"])
def test_what_a_backfill_aborted_is_ended_by_the_next_one_and_not_seen(late, owner):
    """Fault 29 in a backfill: its ids belong to all backfills, so whichever comes next settles it."""
    (late, epochs), partition = late, 0
    trial, at = late.trial, (f"eu.{late.trial.topic}", partition)
    sample = copies(epochs, at)[0]
    if owner == "of another":
        other = late.start(late.plan(partition=1))
        assert late.carry(other).finished
    backfill = late.start(late.plan(partition=partition))
    id_ = backfill.plan.id if owner == "its own" else other.plan.id
    leave_of_backfills(epochs, at, [of_backfill(sample, offset, id_) for offset in range(3)])
    assert late.carry(backfill).finished
    assert Counter(offset for found, _, offset in trial.origins("eu") if found == partition) == Counter(range(20))
    assert not any(map(len, ends.undecided_ranges(epochs.config.central, [at]).values()))


@pytest.mark.parametrize("owner", ["its own", "of another"])
def test_what_a_backfill_committed_is_seen_once_whoever_settles_it(late, owner):
    """Fault 29 in a backfill: records that its ledger has passed and nobody sees are written again."""
    (late, epochs), partition = late, 0
    at = (f"eu.{late.trial.topic}", partition)
    backfill = late.start(late.plan(partition=partition))
    assert late.carry(backfill).finished
    kept = [one for one in copies(epochs, at) if one.copy.backfill]
    assert len(kept) == 10
    delete_all(late.trial, at)
    leave_of_backfills(epochs, at, kept)
    # Its letters and offsets of another partition: what the first one passed is no matter of the second's plan.
    following = backfill if owner == "its own" else late.start(late.plan(partition=1))
    assert late.carry(following).finished
    assert copies_after(epochs, at) == kept, "key, value, time and headers are kept"
    assert not any(map(len, ends.undecided_ranges(epochs.config.central, [at]).values()))


def test_what_is_left_where_no_rule_writes_any_more_is_settled(epochs):
    """A rule went, or sends its topic elsewhere: whoever leads next knows from the control topic where it wrote."""
    trial, at = epochs.trial, (f"eu.{epochs.trial.topic}", 1)
    trial.produce("eu", 30)
    drained(epochs)
    kept = copies(epochs, at)
    delete_all(trial, at)
    leave(epochs, at, kept)
    known = epochs.central.read_control().targets
    assert {one.central for one in known if one.edge == "eu"} == {at[0]}
    former = epochs.central.partitions({one.central for one in known})
    opened = open_epoch(
        epochs.central, slots=1, driver="d", partitions=former, owner=TransactionOwner.of_live_flows(epochs.names)
    )
    assert opened.held == {}
    assert copies_after(epochs, at) == kept


def entries_of(epochs, id_):
    """What the ledger of the backfills shows of one, without waiting."""
    names = epochs.names.backfills()
    count = topics.partition_count(epochs.config.central, names.ledger)
    return winners(read_visible(epochs.config.central, names.ledger, range(count)), names.ledger, backfill=id_)


def undecide_ledger(epochs, id_):
    """Make the last record of a backfill in the ledger undecided, as if its marker had been dropped."""
    central, names = epochs.config.central, epochs.names.backfills()
    at = (names.ledger, 0)
    known = read_range(central, at, OffsetRange(0, ends.stable_end_offsets(central, [at])[at]), committed=True)
    last = [one for one in known if one.key.endswith(id_.encode()) and b"/0/" in one.key][-1]
    epochs.trial.forget(at)
    leave_of_backfills(epochs, at, [last])


@pytest.mark.parametrize("committed", [True, False])
def test_a_record_in_the_ledger_of_the_backfills_is_settled_by_what_is_visible(late, committed):
    """`backfill settle` does it, whichever backfill it was; `list` would wait for it, and fail."""
    late, epochs = late
    backfill = late.start(late.plan(partition=0))
    assert late.carry(backfill).finished
    id_, central = backfill.plan.id, epochs.config.central
    undecide_ledger(epochs, id_)
    at = (f"eu.{late.trial.topic}", 0)
    if not committed:
        delete_all(late.trial, at)
    assert is_stuck(epochs.config)
    said = late.trial.typed("backfill", "settle")
    assert (said.exit_code, said.stderr) == (0, "nothing of a backfill is undecided at central\n")
    assert not is_stuck(epochs.config)
    assert len(entries_of(epochs, id_)) == int(committed)
    assert not any(map(len, ends.undecided_ranges(central, [(epochs.names.backfills().ledger, 0)]).values()))


def test_a_letter_of_a_backfill_holds_the_flows_up_by_name_until_it_is_settled(late):
    """Dead letters of backfills and live flows share a partition: one's leftover is the other's wait."""
    late, epochs = late
    backfill = late.start(late.plan(partition=0))
    assert late.carry(backfill).finished
    id_, at = backfill.plan.id, (epochs.names.dead_letters, 0)
    body = {"edge": "eu", "topic": late.trial.topic, "reason": "too_large", "backfill": id_}
    key = letter_key(EdgePartition("eu", late.trial.topic, 0), 2, 0).encode()
    leave_of_backfills(epochs, at, [CentralRecord(key, json.dumps(body).encode(), 1, ())])
    late.trial.produce("eu", 30)
    (plan,) = epochs.plans()
    assert f"of backfill {id_}; `aggregator backfill settle` ends it" in epochs.undecided[at]
    outcome = epochs.run(plan)
    assert outcome.result == "stopped"
    assert at in outcome.undecided_partitions
    assert settle_backfills(epochs.config, identity="me", stop=threading.Event()) == {}
    assert drained(epochs) == {}


def test_a_backfill_settles_what_keeps_it_from_being_planned(late):
    """`run` waits for nothing that a former one has left in the ledger of all."""
    late, epochs = late
    backfill = late.start(late.plan(partition=0))
    assert late.carry(backfill).finished
    undecide_ledger(epochs, backfill.plan.id)
    said = late.trial.typed("backfill", "run", "--edge", "eu", "--topic", late.trial.topic, "--partition", "1", "--yes")
    assert said.exit_code == 0, said.output
    assert "it is settled first" in said.stderr
    found = Counter(offset for partition, _, offset in late.trial.origins("eu") if partition == 1)
    assert found == Counter(range(20))
