"""What central refuses for good, on real brokers: its topic is held by name, everything else of the slot flows on."""

import time

import pytest

from aggregator.replicate.kafka_ports import KafkaSlotWorld
from tests.trial import settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.timeout(400)]


@pytest.fixture
def words():
    """What slots tell."""
    return []


@pytest.fixture
def world(words):
    """A real world, whose telemetry is heard at once."""

    class Told(KafkaSlotWorld):
        def telemetry(self, body):
            words.append(body)
            super().telemetry(body)

    return Told


def topic_of(trial, edge):
    return f"{edge}.{trial.topic}"


def running(epochs, world):
    """A slot over both edges, in a thread."""
    (plan,) = epochs.plans(drain=False)
    return epochs.start(plan, world)


def end(epochs, slot):
    epochs.central.publish(epochs.central.control().newest)
    return slot.outcome()


def test_a_deleted_topic_holds_its_own_flows_until_it_is_there_again(epochs, world, words):
    """The slot's other flows go on, the hold names topic and code, and nobody starts anything again."""
    trial = epochs.trial
    for edge in ("eu", "us"):
        trial.produce(edge, 30)
    slot = running(epochs, world)
    try:
        for edge in ("eu", "us"):
            wait_for(lambda edge=edge: trial.central_count(edge) == 30, timeout=60, what=edge)
        admin, gone = trial.admin("central"), topic_of(trial, "eu")
        settle(admin.delete_topics([gone]))
        # The controller answers first; for a moment the broker goes on taking records for the topic.
        wait_for(lambda: gone not in admin.list_topics(timeout=10).topics, timeout=30, what="the deletion")
        for edge in ("eu", "us"):
            trial.produce(edge, 30)
        wait_for(lambda: trial.central_count("us") == 60, timeout=90, what="the other edge's records")

        def named():
            """Refused by central, or not answered for when the slot asked before it wrote: either way by name."""
            word = next((one for one in reversed(words) if "held" in one), {"held": {}, "waiting": {}})
            told = {flow: detail for flow, (_, detail) in word["held"].items()} | word["waiting"]
            return [detail for flow, detail in told.items() if flow.startswith("eu/")]

        details = wait_for(named, timeout=60, what="a word about the topic")
        assert all(gone in detail for detail in details)
        trial.create("central", 3, topic=gone)
        wait_for(lambda: trial.central_count("eu") == 30, timeout=120, what="what was held")
        wait_for(lambda: not words[-1].get("held", True), timeout=30, what="no hold any more")
    finally:
        outcome = end(epochs, slot)
    assert (outcome.result, outcome.holds) == ("stopped", ())
    trial.check_exactly_once("us", 60, lake=False)


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
    trial.produce_raw("eu", [(b"k", trial.value(99), 0)], timestamp_ms=old_ms, headers=[("traceparent", b"0" * 4000)])
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
