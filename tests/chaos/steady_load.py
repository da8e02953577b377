"""Orders at a steady rate, and when each was acknowledged by its edge and seen at central: what a fault costs in time.

Invariant: both times are of one clock, and a record is known by where it lies at its edge; nothing is asked of the hub.
"""

import itertools
import statistics
import threading
import time
from dataclasses import dataclass
from typing import Self

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.trial import HEADERS, wait_for

EDGES = ("eu", "us")
_PER_S = 200
_EVERY_S = 0.02
_SETTLE_S = 60.0


@dataclass(frozen=True)
class Spell:
    """How an edge flowed for a while.

    Attributes:
        records: That the edge acknowledged.
        unacknowledged_s: Longest time without an acknowledgement: what the edge itself cost its producers.
        silent_s: Longest time in which a read_committed reader at central saw no record.
        median_ms: From the acknowledgement to that reader.
        p99_ms: The same, 99th percentile.
        longest_ms: The same, at most.
    """

    records: int
    unacknowledged_s: float
    silent_s: float
    median_ms: int
    p99_ms: int
    longest_ms: int


class Steady:
    """Traffic on edges and a reader at central, as long as the block lasts.

    Args:
        trial: Whose topic; its partitions are those of the edge when the block begins.
        edges: Which edges.

    Attributes:
        acknowledged: By edge, when each (partition, offset) was acknowledged.
        arrived: By edge, when each (partition, offset) was first seen at central.
    """

    def __init__(self, trial, edges: tuple[str, ...] = EDGES) -> None:
        self.acknowledged: dict[str, dict[tuple[int, int], float]] = {edge: {} for edge in edges}
        self.arrived: dict[str, dict[tuple[int, int], float]] = {edge: {} for edge in edges}
        self._trial = trial
        self._fed, self._over = threading.Event(), threading.Event()
        self._failures: list[str] = []
        self._feeds = [threading.Thread(target=self._feed, args=(edge,)) for edge in edges]
        self._readers = [threading.Thread(target=self._read, args=(edge,)) for edge in edges]

    def __enter__(self) -> Self:
        for thread in (*self._feeds, *self._readers):
            thread.start()
        return self

    def __exit__(self, *_exception) -> None:
        self.stop()
        self._over.set()
        for thread in self._readers:
            thread.join()

    def stop(self) -> None:
        """No more orders; every one is acknowledged when this returns."""
        self._fed.set()
        for thread in self._feeds:
            thread.join()
        assert not self._failures, self._failures[:3]

    def reach(self, *, timeout: float, edge: str | None = None) -> float:
        """Wait until all that is acknowledged by now has arrived, and something newer; seconds that it took."""
        began = time.monotonic()
        for one in (edge,) if edge else self.acknowledged:
            wait_for(lambda one=one: self._latest(one) >= began or self._fed.is_set(), timeout=timeout, what="an order")
            goal = dict(self.acknowledged[one])
            wait_for(
                lambda one=one, goal=goal: goal.keys() <= self.arrived[one].keys(),
                timeout=timeout,
                what=f"{len(goal)} records of {one} at central",
            )
        return round(time.monotonic() - began, 1)

    def spell(self, edge: str, began: float, ended: float) -> Spell:
        """How this edge flowed between two times; both ends count as records when it is about silence."""
        within = {at: when for at, when in dict(self.acknowledged[edge]).items() if began <= when < ended}
        seen = dict(self.arrived[edge])
        took = sorted(1000 * max(0.0, seen[at] - when) for at, when in within.items() if at in seen)
        assert len(took) > 1, "nothing arrived: the observation is void"
        return Spell(
            records=len(within),
            unacknowledged_s=_longest_pause(within.values(), began, ended),
            silent_s=_longest_pause(seen.values(), began, ended),
            median_ms=round(statistics.median(took)),
            p99_ms=round(took[len(took) * 99 // 100]),
            longest_ms=round(took[-1]),
        )

    def _latest(self, edge: str) -> float:
        return max(dict(self.acknowledged[edge]).values(), default=0.0)

    def _feed(self, edge: str) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._trial.sandbox.edges[edge].bootstrap,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 500,
                "log_level": 2,
            }
        )

        def answered(error, message) -> None:
            if error is not None:
                self._failures.append(error.str())
            else:
                self.acknowledged[edge][message.partition(), message.offset()] = time.monotonic()

        for number in itertools.count():
            producer.produce(
                self._trial.topic,
                self._trial.value(number),
                b"k%d" % (number % 13),
                number % 3,
                headers=HEADERS,
                on_delivery=answered,
            )
            producer.poll(0)
            if number % round(_PER_S * _EVERY_S) == 0:
                producer.poll(_EVERY_S)
                if self._fed.wait(_EVERY_S / 2):
                    break
        if producer.flush(_SETTLE_S):
            self._failures.append(f"{edge} did not acknowledge everything within {_SETTLE_S} s")

    def _read(self, edge: str) -> None:
        topic = f"{edge}.{self._trial.topic}"
        reader = Consumer(
            {
                "bootstrap.servers": self._trial.sandbox.central.bootstrap,
                "group.id": "steady",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 500,
                "fetch.wait.max.ms": 50,
                "log_level": 2,
            }
        )
        try:
            assigned = False
            while not self._over.is_set():
                if not assigned:
                    known = reader.list_topics(timeout=10).topics
                    assigned = topic in known and bool(known[topic].partitions)
                    if assigned:
                        reader.assign([TopicPartition(topic, number, 0) for number in known[topic].partitions])
                    self._over.wait(0.2)
                    continue
                for message in reader.consume(1000, 0.02):
                    if message.error() is None:
                        self._note(edge, message)
        finally:
            reader.close()

    def _note(self, edge: str, message) -> None:
        partition, offset = dict(message.headers())["hub.origin"].decode().split("/")[3:5]
        self.arrived[edge].setdefault((int(partition), int(offset)), time.monotonic())


def _longest_pause(times, began: float, ended: float) -> float:
    at = [began, *sorted(when for when in times if began <= when <= ended), ended]
    return round(max(b - a for a, b in itertools.pairwise(at)), 2)
