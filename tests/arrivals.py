"""When records arrive at central, for tests that ask how long nothing came."""

import itertools
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, TopicPartition


class Arrivals(threading.Thread):
    """When records of a trial's topic arrive at central, by edge, as a read_committed reader sees them."""

    def __init__(self, trial) -> None:
        super().__init__()
        self.at = defaultdict(list)
        self._trial, self._over = trial, threading.Event()

    def run(self) -> None:
        reader = Consumer(
            {
                "bootstrap.servers": self._trial.sandbox.central.bootstrap,
                "group.id": "arrivals",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        topics = [f"{edge}.{self._trial.topic}" for edge in self._trial.sandbox.edges]
        while not self._over.is_set() and not set(topics) <= reader.list_topics(timeout=10).topics.keys():
            time.sleep(0.2)
        reader.assign([TopicPartition(topic, partition, 0) for topic in topics for partition in range(3)])
        while not self._over.is_set():
            for message in reader.consume(1000, 0.05):
                if message.error() is None:
                    self.at[message.topic().partition(".")[0]].append(time.time())
        reader.close()

    def stop(self) -> None:
        """Leave central."""
        self._over.set()
        self.join()

    def longest(self, edge: str, since: float) -> float:
        """Longest time without a record."""
        at = [one for one in sorted(self.at[edge]) if one >= since]
        return max(later - one for one, later in itertools.pairwise(at))
