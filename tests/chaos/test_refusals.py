"""What central refuses for good, on real brokers: its topic is held by name, everything else of the slot flows on."""

import time

import pytest

from aggregator.coordinates import OffsetRange
from aggregator.kafka.readers.codes import RefusalKind
from aggregator.kafka.writers.refusals import unwritable
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from tests.trial import incompressible, settle, wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]


@pytest.fixture
def words():
    """What slots tell."""
    return []


@pytest.fixture
def world(words):
    """A real world, whose telemetry is heard at once."""

    class Told(KafkaSlotPorts):
        def publish_telemetry(self, body):
            words.append(body)
            super().publish_telemetry(body)

    return Told


def topic_of(trial, edge):
    return f"{edge}.{trial.topic}"


def running(epochs, world):
    """A slot over both edges, in a thread."""
    (plan,) = epochs.plans(drain=False)
    return epochs.start(plan, world)


def end(epochs, slot):
    epochs.central.publish(epochs.central.read_control().epoch_number)
    return slot.outcome()


def delete_at_central(trial, edge) -> str:
    """The central topic of an edge, gone: the controller answers first, and the broker goes on taking records."""
    admin, gone = trial.admin("central"), topic_of(trial, edge)
    settle(admin.delete_topics([gone]))
    wait_for(lambda: gone not in admin.list_topics(timeout=10).topics, timeout=30, what="the deletion")
    return gone


def held(words, edge):
    """The last word of a slot that holds flows of an edge."""
    told = (one for one in reversed(words) if any(flow.startswith(f"{edge}/") for flow in one.get("held", ())))
    return next(told, None)


def hold_of(words, gone):
    """The word in which a slot holds flows into a topic that is gone: reason, topic, code and next step, by name."""
    word = wait_for(lambda: held(words, "eu"), timeout=60, what="the hold")
    assert {reason for reason, _ in word["held"].values()} == {"central"}
    assert all(flow.startswith("eu/") for flow in word["held"])
    for _, detail in word["held"].values():
        assert gone in detail
        assert "UNKNOWN_TOPIC_OR_PART" in detail
        assert "create it again" in detail
    assert not any(flow.startswith("eu/") for flow in word["waiting"])
    return word


def check_tried_again(epochs, words, slot, gone, *, expected):
    """Once the topic is there again, its flows go on by themselves, and nothing else was touched."""
    trial = epochs.trial
    try:
        trial.create("central", 3, topic=gone)
        wait_for(lambda: trial.central_count("eu") == expected, timeout=120, what="what was held")
        wait_for(lambda: not words[-1].get("held", True), timeout=30, what="no hold any more")
    finally:
        outcome = end(epochs, slot)
    assert (outcome.result, outcome.holds) == ("stopped", ())
    trial.check_exactly_once("us", 60, lake=False)


def test_a_topic_deleted_before_a_slot_asks_holds_its_own_flows_until_it_is_there_again(epochs, world, words):
    """The slot asks before it writes: nothing is aborted, and its other flows go on."""
    trial = epochs.trial
    (plan,) = epochs.plans(drain=False)
    gone = delete_at_central(trial, "eu")
    for edge in ("eu", "us"):
        trial.produce(edge, 60)
    slot = epochs.start(plan, world)
    wait_for(lambda: trial.central_count("us") == 60, timeout=90, what="the other edge's records")
    word = hold_of(words, gone)
    assert gone not in word["aborted"]
    check_tried_again(epochs, words, slot, gone, expected=60)
    trial.check_exactly_once("eu", 60, lake=False)


def test_a_topic_deleted_after_a_slot_asked_holds_its_own_flows_until_it_is_there_again(epochs, world, words):
    """A record is refused: its transaction is aborted, which is counted and explained, and the other flows go on."""
    trial, eu = epochs.trial, topic_of(epochs.trial, "eu")

    class Unaware(world):
        """Asks a broker that has not heard of the deletion, until a record was refused."""

        def read_undecided(self, partitions):
            ends = OffsetRange(1_000, 1_000)  # behind all that was written
            stale = {at: ends for at in partitions if at[0] == eu and not held(words, "eu")}
            return {**super().read_undecided([at for at in partitions if at not in stale]), **stale}

    for edge in ("eu", "us"):
        trial.produce(edge, 30)
    slot = running(epochs, Unaware)
    for edge in ("eu", "us"):
        wait_for(lambda edge=edge: trial.central_count(edge) == 30, timeout=60, what=edge)
    gone = delete_at_central(trial, "eu")
    for edge in ("eu", "us"):
        trial.produce(edge, 30)
    wait_for(lambda: trial.central_count("us") == 60, timeout=90, what="the other edge's records")
    word = hold_of(words, gone)
    assert word["aborts"] >= 1
    assert gone in word["aborted"]
    check_tried_again(epochs, words, slot, gone, expected=30)


def test_what_central_says_of_a_topic_is_what_it_refuses_of_its_records(epochs):
    """A topic that is not there, or narrower than the partition; one that is there is not refused."""
    trial, central = epochs.trial, epochs.config.central
    trial.create("central", 2)
    there, nowhere = trial.topic, f"nowhere-{trial.mark}"
    asked = [(nowhere, 0), (there, 0), (there, 1), (there, -1)]
    (refusal,) = unwritable(central, asked, timeout_s=5)
    assert (refusal.topic, refusal.partition, refusal.kind) == (nowhere, -1, RefusalKind.TOPIC_GONE)
    (refusal,) = unwritable(central, [*asked[1:], (there, 7)], timeout_s=5)
    assert (refusal.topic, refusal.partition, refusal.kind) == (there, 7, RefusalKind.TOPIC_GONE)


@pytest.mark.parametrize(
    ("setting", "value", "reason"),
    [("max.message.bytes", "2500", "too_large"), ("message.timestamp.before.max.ms", "60000", "refused_timestamp")],
)
def test_a_limit_that_was_lowered_ends_the_epoch_and_makes_dead_letters(epochs, world, setting, value, reason):
    """The next epoch knows it: what is beyond it is a dead letter, all else of both edges is delivered."""
    trial = epochs.trial
    trial.produce("eu", 30)
    slot = running(epochs, world)
    wait_for(lambda: trial.central_count("eu") == 30, timeout=60, what="the first records")
    trial.configure("central", topic_of(trial, "eu"), setting, value)
    time.sleep(1)
    old_ms = int(time.time() * 1000) - 86_400_000
    long = [("traceparent", incompressible(8000))]
    trial.produce_raw("eu", [(b"k", trial.value(99), 0)], timestamp_ms=old_ms, headers=long)
    outcome = slot.outcome(90)
    assert outcome.result == "stopped"
    assert topic_of(trial, "eu") in outcome.detail
    trial.produce("eu", 30)
    trial.produce("us", 30)
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    assert [(one["edge"], one["partition"], one["reason"]) for one in trial.letters()] == [("eu", 0, reason)]
    assert sorted(trial.numbers("eu")) == list(range(60))
    assert sorted(trial.numbers("us")) == list(range(30))


def test_a_limit_that_was_raised_ends_the_epoch_before_a_record_dies_for_it(epochs, world):
    """An operator mends a topic that was made too small: what comes then is delivered, not a dead letter as before."""
    trial, long = epochs.trial, [("traceparent", incompressible(8000))]
    trial.create("central", 4, topic=topic_of(trial, "eu"), max_message_bytes="2500")
    trial.produce("eu", 30)
    slot = running(epochs, world)
    wait_for(lambda: trial.central_count("eu") == 30, timeout=60, what="the first records")
    trial.produce_raw("eu", [(b"k", trial.value(99), 0)], headers=long)
    wait_for(trial.letters, timeout=60, what="a letter")
    trial.configure("central", topic_of(trial, "eu"), "max.message.bytes", "1048588")
    time.sleep(10)
    trial.produce_raw("eu", [(b"k", trial.value(100), 0)], headers=long)
    outcome = slot.outcome(90)
    assert (outcome.result, topic_of(trial, "eu") in outcome.detail) == ("stopped", True)
    (plan,) = epochs.plans()
    assert epochs.run(plan).result == "drained"
    assert [(one["offset"], one["reason"]) for one in trial.letters()] == [(10, "too_large")]
    assert sorted(trial.numbers("eu")) == [*range(30), 100]
