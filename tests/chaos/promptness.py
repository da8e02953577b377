"""What "the others keep flowing" and "it recovers" mean in seconds, judged from outside."""

import json
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, TopicPartition

from tests.trial import wait_for

# From the producer's acknowledgement to a read_committed reader at central, on a machine that has two cores for all.
PROMPT_S = 8.0
_BATCH = 10_000


class Arrivals:
    """Counts what a read_committed reader sees of an edge's central copy; each record is read once."""

    def __init__(self, trial, edge: str) -> None:
        self._trial = trial
        self._topic = f"{edge}.{trial.topic}"
        self._partitions = 0
        self._count = 0
        self._reader = Consumer(
            {
                "bootstrap.servers": trial.sandbox.central.bootstrap,
                "group.id": "arrivals",
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )

    def count(self) -> int:
        """Records that have arrived until now; 0 while there is no copy."""
        if not self._partitions:
            self._extend()
        if not self._partitions:
            return 0
        more = True
        while more:
            batch = self._reader.consume(_BATCH, 0.1)
            self._count += sum(message.error() is None for message in batch)
            more = len(batch) == _BATCH  # to read on while anything comes would never end where records flow
        return self._count

    def _extend(self) -> None:
        """Read the partitions, too, that came since."""
        known = self._trial.admin("central").list_topics(timeout=10).topics
        there = len(known[self._topic].partitions) if self._topic in known else 0
        fresh = [TopicPartition(self._topic, partition, 0) for partition in range(self._partitions, there)]
        if fresh:
            self._reader.incremental_assign(fresh)
        self._partitions = max(self._partitions, there)

    def reach(self, goal: int, *, hub=None, timeout: float) -> float:
        """Wait until `goal` records have arrived; seconds that it took."""
        began = time.monotonic()
        self._extend()

        def there() -> bool:
            assert hub is None or hub.poll() is None, hub.log.read_text()
            return self.count() >= goal

        wait_for(there, timeout=timeout, what=f"{goal} records in {self._topic}")
        return round(time.monotonic() - began, 1)

    def close(self) -> None:
        """Leave central."""
        self._reader.close()


@dataclass(frozen=True)
class Promptness:
    """How an edge flowed for a while."""

    records: int
    worst_s: float


def keeps_flowing(arrivals: Arrivals, produced, edge: str, *, for_s: float, hub=None) -> Promptness:
    """I7: while this runs, whatever is acknowledged on `edge` is at central within `PROMPT_S`."""
    worst, before, began = 0.0, produced[edge], time.monotonic()
    while time.monotonic() < began + for_s:
        worst = max(worst, arrivals.reach(produced[edge], hub=hub, timeout=PROMPT_S))
        time.sleep(0.2)
    moved = produced[edge] - before
    assert moved > 0, "nothing was produced: the observation is void"
    return Promptness(moved, worst)


def state_of(trial, edge: str) -> tuple[str, float]:
    """What `aggregator status` calls an edge, and how many seconds the answer took.

    In a process of its own: traffic and its readers keep this one's interpreter busy.
    """
    began = time.monotonic()
    done = trial.run("status", "-o", "json")
    assert done.returncode == 0, done.stderr
    (state,) = [one["state"] for one in json.loads(done.stdout)["edges"] if one["edge"] == edge]
    return state, round(time.monotonic() - began, 1)
