"""A wide edge: 200 topics of ten partitions each, read by one slot, stripped, once each."""

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import NewTopic

from tests.bench.soak import worker_bytes
from tests.trial import settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.timeout(1200)]

TOPICS, PARTITIONS, EACH = 200, 10, 5
MAX_BYTES = 1_500_000_000


class Copies:
    """What a read_committed reader finds in the central copies of many topics: origins, counted."""

    def __init__(self, trial, topics: list[str]) -> None:
        self.origins: Counter[tuple[str, int, int]] = Counter()
        self._reader = Consumer(
            {
                "bootstrap.servers": trial.sandbox.central.bootstrap,
                "group.id": "copies",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._reader.assign([TopicPartition(topic, p, 0) for topic in topics for p in range(PARTITIONS)])

    def count(self) -> int:
        """Records that have arrived until now."""
        while batch := self._reader.consume(10_000, 0.5):
            for message in batch:
                assert message.error() is None
                _, _, topic, partition, offset, _ = dict(message.headers())["hub.origin"].decode().split("/")
                self.origins[topic, int(partition), int(offset)] += 1
        return self.origins.total()

    def close(self) -> None:
        """Leave central."""
        self._reader.close()


class Peak(threading.Thread):
    """The most that a hub's workers held, sampled once a second from outside."""

    def __init__(self, hub) -> None:
        super().__init__()
        self.most = 0
        self._hub = hub
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(1):
            self.most = max(self.most, worker_bytes(self._hub))

    def stop(self) -> None:
        """No more samples."""
        self._over.set()
        self.join()


@pytest.fixture
def wide(new_trial):
    """A trial whose hub replicates 200 topics of one edge, and their names."""
    trial = new_trial()
    names = [f"{trial.topic}-{number}" for number in range(TOPICS)]
    trial.settings["topics"] = [{"match": f"{trial.topic}-.*", "policy": "policy.yaml", "edges": ["eu"]}]
    trial.settings.pop("lake")
    trial.write()
    schema = (trial.folder / "schemas" / f"{trial.topic}-value" / "1-7.avsc").read_text()
    for name in names:
        (trial.folder / "schemas" / f"{name}-value").mkdir()
        (trial.folder / "schemas" / f"{name}-value" / "1-7.avsc").write_text(schema)
    for start in range(0, TOPICS, 50):
        settle(trial.admin("eu").create_topics([NewTopic(name, PARTITIONS, 1) for name in names[start : start + 50]]))
    yield trial, names
    trial.clear("eu", names)


def test_two_thousand_partitions_on_one_edge(wide):
    """Resources (I1, I4): 2,000 partitions are delivered, once each and within bounded memory, and followed live."""
    trial, names = wide
    goal = TOPICS * PARTITIONS * EACH
    _produce(trial, names, range(EACH))
    with trial.running("--only", "replicate") as hub:
        peak = Peak(hub)
        peak.start()
        try:
            began = time.monotonic()
            wait_for(lambda: _created(trial, hub, names), timeout=200, what="the central topics")
            copies = Copies(trial, [f"eu.{name}" for name in names])
            wait_for(lambda: copies.count() >= goal, timeout=200, what="what waited at the edge")
            took = [time.monotonic() - began]
            _produce(trial, names, range(EACH, 2 * EACH))
            began = time.monotonic()
            wait_for(lambda: copies.count() >= 2 * goal, timeout=60, what="what came later")
            took.append(time.monotonic() - began)
        finally:
            peak.stop()
    copies.count()
    copies.close()
    print(f"backlog after {took[0]:.1f} s, live after {took[1]:.1f} s, workers held {peak.most / 1e6:.0f} MB")
    assert set(copies.origins) == {(n, p, o) for n in names for p in range(PARTITIONS) for o in range(2 * EACH)}
    assert set(copies.origins.values()) == {1}
    assert peak.most < MAX_BYTES


def _produce(trial, names, numbers) -> None:
    """One record of each number to every partition of every topic."""
    for name in names:
        records = [(b"k", trial.value(number), partition) for number in numbers for partition in range(PARTITIONS)]
        trial.produce_raw("eu", records, topic=name)


def _created(trial, hub, names) -> bool:
    assert hub.poll() is None, hub.log.read_text()
    known = trial.admin("central").list_topics(timeout=10).topics
    return all(f"eu.{name}" in known and len(known[f"eu.{name}"].partitions) >= PARTITIONS for name in names)
