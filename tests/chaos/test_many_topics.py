"""Two hundred topics at once: an edge that gets them keeps neither itself nor another edge from delivering."""

import time

import pytest
from confluent_kafka.admin import NewTopic

from tests.arrivals import Arrivals
from tests.trial import read_all, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

TOPICS, PARTITIONS = 200, 3
# Two seconds are wanted. Brokers, hub and traffic share two cores, and brokers that make 1,200 logs take them all.
LONGEST_S = 5.0
# Running slots take them; a topic that a busy broker was late with may cost an epoch.
MAX_EPOCHS = 1


@pytest.fixture
def many(new_trial):
    """A hub whose rule takes two hundred further topics, and their names."""
    trial = new_trial()
    trial.settings["topics"] = [{"match": f"{trial.topic}(-.*)?", "policy": "policy.yaml"}]
    trial.settings.pop("lake")
    trial.write()
    names = [f"{trial.topic}-{number}" for number in range(TOPICS)]
    yield trial, names
    trial.clear("eu", names)


def test_two_hundred_topics_at_once(many):
    """Flows of both edges go on while an edge and central make the topics, and slots that run take them."""
    trial, names = many
    arrivals = Arrivals(trial)
    arrivals.start()
    try:
        with trial.running("--only", "replicate") as hub, trial.traffic("eu", "us", batch=2, pause_s=0.05):
            wait_for(lambda: all(len(arrivals.at[edge]) > 200 for edge in ("eu", "us")), timeout=150, what="flow")
            began = time.time()
            trial.admin("eu").create_topics([NewTopic(name, PARTITIONS, 1) for name in names])
            flows = TOPICS * PARTITIONS
            wait_for(lambda: begun(trial, hub, names) == flows, timeout=200, what="first positions of all new flows")
            time.sleep(5)
            assert hub.poll() is None
    finally:
        arrivals.stop()
    longest = {edge: round(arrivals.longest(edge, began), 2) for edge in ("eu", "us")}
    opened = trial.epochs()
    print(f"longest time without a record: {longest} s, in {opened} epochs")
    assert opened <= 1 + MAX_EPOCHS
    assert max(longest.values()) < LONGEST_S, longest
    assert "STALLED" not in hub.log.read_text()


def begun(trial, hub, names) -> int:
    """New flows that have a position."""
    assert hub.poll() is None, hub.log.read_text()[-3000:]
    time.sleep(1)
    wanted, found = set(names), set()
    for message in read_all(trial.sandbox.central.bootstrap, f"{trial.hub}.ledger"):
        edge, topic, partition = message.key().decode().split("/")
        if edge == "eu" and topic in wanted:
            found.add((topic, partition))
    return len(found)
