"""The edge's registry is down, refuses or breaks while records flow."""

import json

import pytest

from tests.chaos.promptness import keeps_flowing
from tests.epochs import Epochs
from tests.trial import ORDER, wait_for
from tests.unit.schema.double import RegistryDouble

pytestmark = [pytest.mark.brokers]

RECOVERY_S = 40.0


@pytest.fixture
def registry():
    """A registry over real sockets."""
    made = RegistryDouble()
    yield made
    made.close()


def renamed(number: int) -> str:
    """The order's schema under another text, so that it has an id of its own."""
    return json.dumps(ORDER | {"doc": f"version {number}"})


def test_a_registry_that_fails_holds_new_ids_only(trial, arrivals, registry):
    """Fault 12 (I1, I4, I7): down, 401, 503: known ids flow, a new id holds its own flow, and it resumes by itself."""
    subject = f"{trial.topic}-value"
    registry.add(subject, json.dumps(ORDER), schema_id=7)
    trial.settings["edges"]["eu"]["schemas"] = registry.address
    trial.write()
    epochs = Epochs(trial)
    (plan,) = epochs.plans(drain=False)
    running = epochs.start(plan)
    known, new = 0, 0
    with trial.traffic("us") as produced:
        trial.produce_raw("eu", [(b"k", trial.value(n), n % 3) for n in range(30)])
        known = 30
        for edge, count in (("eu", 30), ("us", 50)):
            arrivals[edge].reach(count, timeout=60)
        for round_, fault in enumerate(("drop", 401, 503)):
            schema_id = 20 + round_
            registry.add(subject, renamed(schema_id), schema_id=schema_id)
            registry.fault = fault
            asked = registry.asked.count(f"GET /schemas/ids/{schema_id}")
            trial.produce_raw("eu", [(b"new", trial.value(1000 + schema_id, schema_id), 0)])
            trial.produce_raw("eu", [(b"behind", trial.value(2000 + schema_id), 0)])
            wait_for(
                lambda n=asked, i=schema_id: registry.asked.count(f"GET /schemas/ids/{i}") > n,
                timeout=20,
                what="a question to the registry",
            )
            trial.produce_raw("eu", [(b"k", trial.value(3000 + n), 1 + n % 2) for n in range(20)])
            known += 20
            arrivals["eu"].reach(known + new, timeout=20)
            print(fault, keeps_flowing(arrivals["us"], produced, "us", for_s=4))
            assert arrivals["eu"].count() == known + new, "a record passed one that cannot be decoded yet"
            registry.fault = None
            new += 2
            print(f"{fault}: recovered in {arrivals['eu'].reach(known + new, timeout=RECOVERY_S)} s")
    epochs.central.publish(plan.epoch)
    outcome = running.outcome()
    assert (outcome.result, outcome.holds) == ("stopped", ())
    epochs.close()
    assert trial.letters() == []
    first = [offset for partition, _, offset in trial.origins("eu") if partition == 0]
    assert first == list(range(16)), "lost, doubled or reordered in the flow that was held"


def test_a_registry_that_lags_loses_no_record(trial, arrivals, registry):
    """Fault 11 (I1, I4, I6, I7): an id that comes late delays its flow alone; one that never
    comes is a dead letter after its time, and what lies behind it follows in order.
    """
    registry.add(f"{trial.topic}-value", json.dumps(ORDER), schema_id=7)
    trial.settings["edges"]["eu"]["schemas"] = registry.address
    trial.settings["replication"] = {"schema_patience": "8s"}
    trial.write()
    epochs = Epochs(trial)
    (plan,) = epochs.plans(drain=False)
    running = epochs.start(plan)
    with trial.traffic("us") as produced:
        trial.produce_raw("eu", [(b"k", trial.value(n), n % 3) for n in range(30)])
        for edge, count in (("eu", 30), ("us", 50)):
            arrivals[edge].reach(count, timeout=60)
        trial.produce_raw("eu", [(b"late", trial.value(100, 20), 0), (b"behind", trial.value(101), 0)])
        trial.produce_raw("eu", [(b"never", trial.value(102, 99), 1), (b"behind", trial.value(103), 1)])
        wait_for(lambda: registry.asked.count("GET /schemas/ids/20") > 1, timeout=20, what="a second question")
        trial.produce_raw("eu", [(b"k", trial.value(200 + n), 2) for n in range(20)])
        arrivals["eu"].reach(50, timeout=20)
        print(keeps_flowing(arrivals["us"], produced, "us", for_s=2))
        assert arrivals["eu"].count() == 50, "a record passed one whose schema is waited for"
        assert trial.letters() == []
        registry.add(f"{trial.topic}-value", renamed(20), schema_id=20)
        print(f"recovered in {arrivals['eu'].reach(53, timeout=RECOVERY_S)} s")
    epochs.central.publish(plan.epoch)
    assert running.outcome().holds == ()
    epochs.close()
    (letter,) = trial.letters()
    assert (letter["reason"], letter["schema_id"], letter["partition"]) == ("unknown_schema", 99, 1)
    for partition, count in enumerate((12, 12, 30)):
        offsets = [offset for at, _, offset in trial.origins("eu") if at == partition]
        expected = [n for n in range(count) if (partition, n) != (1, letter["offset"])]
        assert offsets == expected, "lost, doubled or reordered"


def test_a_rebuilt_registry_holds_what_it_would_open(trial, arrivals, registry):
    """Fault 11 (I5, I6, I7): an id that lost its tags holds its flows by name; others flow; restored, it goes on."""
    subject = f"{trial.topic}-value"
    registry.add(subject, json.dumps(ORDER), schema_id=7)
    trial.settings["edges"]["eu"]["schemas"] = registry.address
    trial.write()
    epochs = Epochs(trial)

    def epoch():
        (plan,) = epochs.plans(drain=False)
        return plan, epochs.start(plan)

    plan, running = epoch()
    trial.produce_raw("eu", [(b"k", trial.value(n), n % 3) for n in range(30)])
    arrivals["eu"].reach(30, timeout=60)
    epochs.central.publish(plan.epoch)
    assert running.outcome().holds == ()
    registry.rebuild()
    registry.add(subject, json.dumps(ORDER).replace("confluent:tags", "was"), schema_id=7)
    plan, running = epoch()
    with trial.traffic("us") as produced:
        trial.produce_raw("eu", [(b"k", trial.value(100 + n), n % 3) for n in range(30)])
        arrivals["us"].reach(50, timeout=60)
        print(keeps_flowing(arrivals["us"], produced, "us", for_s=3))
        assert arrivals["eu"].count() == 30, "delivered under an id that lost its tags"
    epochs.central.publish(plan.epoch)
    holds = running.outcome().holds
    assert {hold.source.partition for hold in holds} == {0, 1, 2}
    assert all(
        f"schema id 7, a value schema of topic {trial.topic} (subject {subject})" in hold.detail
        and "restore the registry as it was" in hold.detail
        for hold in holds
    )
    registry.rebuild()
    registry.add(subject, json.dumps(ORDER), schema_id=7)
    plan, running = epoch()
    arrivals["eu"].reach(60, timeout=60)
    epochs.central.publish(plan.epoch)
    assert running.outcome().holds == ()
    epochs.close()
    assert trial.letters() == []
    for partition in range(3):
        assert [offset for at, _, offset in trial.origins("eu") if at == partition] == list(range(20))
