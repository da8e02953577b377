"""Topics that come while slots run: every other flow goes on, and what is given to a slot is delivered exactly once."""

import time
from collections import Counter

import pytest

from aggregator.errors import RetryError
from aggregator.replicate.discovery.discovery import snapshot
from aggregator.replicate.discovery.target_topics import TargetTopics
from aggregator.replicate.epoch.additions import RunningFlows, new_topics, obstacles, plan_additions
from aggregator.replicate.epoch.edge_follower import give_flows
from aggregator.replicate.epoch.growth import shapes_of
from tests.arrivals import Arrivals
from tests.epochs import Epochs
from tests.trial import wait_for

pytestmark = [pytest.mark.brokers]

SECONDS, RECORDS = 20, 60
# A third of a second is wanted. Brokers, hub and traffic share two cores.
LONGEST_S = 3.0


@pytest.fixture
def growing(new_trial):
    """A hub whose rule takes further topics, and makes them at `eu`."""
    trial = new_trial(slots=2)
    trial.settings["topics"] = [{"match": f"{trial.topic}(-.*)?", "policy": "policy.yaml"}]
    trial.settings.pop("lake")
    trial.write()
    yield trial
    trial.clear("eu", [f"{trial.topic}-{number}" for number in range(SECONDS)])


def orders(trial, first: int, count: int = RECORDS // 2):
    """Numbered orders, spread over the partitions."""
    return [(b"k", trial.value(number), number % 3) for number in range(first, first + count)]


def check_delivered(trial, name: str) -> None:
    """Every record of a new topic is at central exactly once."""
    found = Counter(dict(m.headers())["hub.origin"] for m in trial.central_records("eu", f"eu.{name}"))
    assert set(found.values()) == {1}, "doubled"
    assert len(found) == RECORDS, "lost"


@pytest.mark.spark
def test_a_topic_each_second(growing):
    """No epoch ends for them, and both edges' flows go on."""
    trial, names = growing, [f"{growing.topic}-{number}" for number in range(SECONDS)]
    arrivals = Arrivals(trial)
    arrivals.start()
    try:
        with trial.running("--only", "replicate") as hub, trial.traffic("eu", "us", batch=2, pause_s=0.02) as produced:
            wait_for(lambda: all(len(arrivals.at[edge]) > 200 for edge in ("eu", "us")), timeout=150, what="flow")
            time.sleep(5)  # heartbeat topics were made, and are flows by now
            opened, began = trial.epochs(), time.time()
            for name in names:
                trial.create("eu", topic=name)
                trial.produce_raw("eu", orders(trial, 0), topic=name)
                time.sleep(1)
            for name in names:
                trial.produce_raw("eu", orders(trial, RECORDS // 2), topic=name)
            for name in names:
                wait_for(lambda n=name: trial.ends(f"eu.{n}") >= RECORDS, timeout=60, what=f"the records of {name}")
            assert hub.poll() is None
            longest = {edge: round(arrivals.longest(edge, began), 2) for edge in ("eu", "us")}
            assert trial.epochs() == opened, "an epoch ended for a new topic"
    finally:
        arrivals.stop()
    print(f"longest time without a record while a topic came each second: {longest} s")
    trial.drain()
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)
    for name in names:
        check_delivered(trial, name)
    assert max(longest.values()) < LONGEST_S, longest


def test_what_a_slot_is_given_is_delivered_once_however_often_it_begins_again(growing):
    """Rules C and D: copies of the task fence one another before and behind each gift; the next epoch goes on."""
    trial = growing
    trial.settings["replication"]["slots"] = 1
    trial.write()
    trial.produce("eu", 30)
    epochs = Epochs(trial)
    (plan,) = epochs.plans(drain=False)
    running = RunningFlows(plan.epoch, 1, {0: [flow.source for flow in plan.flows]}, (), set(epochs.written))
    topics, names, copies = TargetTopics(epochs.config), [], [epochs.start(plan)]
    for number in range(6):
        before = shown(epochs, names)
        names.append(name := f"{trial.topic}-{number}")
        trial.create("eu", topic=name)
        trial.produce_raw("eu", orders(trial, 0), topic=name)
        wait_for(lambda n=name: n in snapshot(epochs.config, "eu", {}).topics, timeout=30, what="the topic at its edge")
        now = shown(epochs, names)
        assert new_topics(*(shapes_of(one, with_settings=False) for one in (before, now))) == {"eu": {name}}
        fresh = {"eu": {name: now["eu"][name]}}
        assert not [*obstacles(epochs.config, fresh, running, now, ())]
        settings, partitions = topics.ensure(fresh)
        wait_for(lambda at=partitions: answers(epochs, at), timeout=30, what="leaders at central")
        more = plan_additions(epochs.config, fresh, settings, running, now_ms=0)
        if number % 3 == 1:
            copies.append(epochs.start(plan))
        assert give_flows(epochs.config, epochs.central, running, fresh, more)
        if number % 3 == 2:
            copies.append(epochs.start(plan))
        trial.produce_raw("eu", orders(trial, RECORDS // 2), topic=name)
        wait_for(lambda n=name: trial.ends(f"eu.{n}") >= RECORDS, timeout=60, what=f"the records of {name}")
    epochs.central.publish(plan.epoch)
    endings = [copy.outcome().result for copy in copies]
    assert endings == ["fenced"] * (len(copies) - 1) + ["stopped"]
    for last in epochs.plans(beside=names):
        assert {flow.source.topic for flow in last.flows} == {trial.topic, *names}
        assert not [flow for flow in last.flows if flow.is_new_position]
        assert epochs.run(last).result == "drained"
    trial.check_exactly_once("eu", 30, lake=False)
    for name in names:
        check_delivered(trial, name)
    epochs.close()


def shown(epochs: Epochs, names: list[str]):
    """What `eu` shows of these topics, and of the trial's."""
    found = snapshot(epochs.config, "eu", {}).topics
    return {"eu": {name: found[name] for name in (epochs.trial.topic, *names)}}


def answers(epochs: Epochs, partitions) -> bool:
    """Whether each of central's partitions has a leader."""
    try:
        return epochs.central.read_undecided(partitions).keys() == set(partitions)
    except RetryError:
        return False
