"""Slots that are not alone: one that loses its id, hubs of different sizes, a second copy of a running task."""

import pytest
from confluent_kafka import Producer

from aggregator.errors import Fenced
from tests.epochs import Epochs
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers]


@pytest.mark.spark
def test_a_slot_that_is_fenced_alone_is_back_in_seconds(new_trial):
    """Rule E (I1, I7): a slot loses its id, as to a transaction that timed out; it gets another epoch, unasked."""
    trial = new_trial(slots=2)
    with trial.running("--only", "replicate") as hub, trial.traffic("eu", "us") as produced:
        for slot in (None, 1, 0):
            if slot is not None:
                central = trial.sandbox.central.bootstrap
                thief = {"bootstrap.servers": central, "transactional.id": f"{trial.hub}.slot-{slot}"}
                Producer(thief).init_transactions(30)
            for edge in ("eu", "us"):
                goal = trial.central_count(edge) + 200
                wait_for(lambda e=edge, n=goal: trial.central_count(e) >= n, timeout=90, what=f"delivery from {edge}")
            assert hub.poll() is None, hub.log.read_text()
        assert "slot 1 fenced" in hub.log.read_text()
        assert "slot 0 fenced" in hub.log.read_text()
    trial.drain()
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge])


def sized(epochs: Epochs, slots: int) -> None:
    """The same hub, configured for another number of slots."""
    replication = epochs.config.replication.model_copy(update={"slots": slots})
    epochs.config = epochs.config.model_copy(update={"replication": replication})
    epochs.slots = slots


def test_slots_move_between_hubs_of_different_sizes(new_trial):
    """Faults 2 and 18 (I1, I4): four slots, taken over by two, and back by four, while records flow; zombies go on."""
    trial = new_trial(slots=4)
    epochs = Epochs(trial, slots=4)
    zombies = []
    with trial.traffic("eu", "us", batch=20, pause_s=0.05) as produced:
        for slots in (4, 2, 4, 2):
            sized(epochs, slots)
            before = trial.central_count("eu")
            plans = epochs.plans(central=epochs.driver(), drain=False)
            zombies += [epochs.start(plan) for plan in plans]
            wait_for(lambda n=before: trial.central_count("eu") > n + 40, timeout=60, what=f"delivery by {slots} slots")
    last = epochs.central.read_control().epoch_number
    endings = [zombie.outcome().result for zombie in zombies[:-2]]
    assert set(endings) <= {"fenced", "superseded", "stopped"}, endings
    assert "fenced" in endings or "stopped" in endings
    for plan in epochs.plans(central=epochs.driver()):
        assert epochs.run(plan).result == "drained"
    assert {zombie.outcome().result for zombie in zombies[-2:]} <= {"fenced", "superseded", "stopped"}
    assert epochs.central.read_control().epoch_number == last + 1
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)
    assert {partition for partition, _, _ in epochs.ledger_log()} == {0, 1, 2, 3}
    with pytest.raises(Fenced):
        epochs.central.publish(last)
    epochs.close()


def test_a_task_that_runs_twice_at_once_delivers_once(epochs):
    """Spark's contract: a speculative copy fences the first, which ends as a success; what is delivered is there once.

    Spark places a copy on another host only, so the copies are started here: the same plan, the same id, side by side.
    """
    trial = epochs.trial
    with trial.traffic("eu", "us", batch=20, pause_s=0.02) as produced:
        (plan,) = epochs.plans(drain=False)
        copies = [epochs.start(plan)]
        for _ in range(4):
            before = trial.central_count("eu")
            wait_for(
                lambda n=before: trial.central_count("eu") > n + 40, timeout=60, what="delivery by the newest copy"
            )
            copies.append(epochs.start(plan))
            assert copies[-2].outcome().result == "fenced"
    epochs.central.publish(plan.epoch)
    assert copies[-1].outcome().result == "stopped"
    for plan in epochs.plans():
        assert epochs.run(plan).result == "drained"
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)
