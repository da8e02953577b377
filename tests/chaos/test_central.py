"""The central broker dies with a transaction open, while a commit is under way, and under a running hub."""

import threading
import time
from functools import partial

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from aggregator.errors import AggregatorError
from aggregator.kafka.native import library
from aggregator.kafka.writers.writer import COMMIT_TIMEOUT_S, TransactionalWriter
from aggregator.replicate.slot.kafka_ports import KafkaSlotPorts
from tests.chaos.supervisor import supervised
from tests.processes import freeze
from tests.trial import seeded, wait_for

pytestmark = [pytest.mark.brokers]


class Killer:
    """Kills a broker at chosen commits of a slot, and starts it again.

    Attributes:
        hits: Point of each kill, whether it came while the commit was under way, and how that ended.
    """

    def __init__(self, broker, points, rng) -> None:
        self.hits: list[tuple[str, bool, str]] = []
        self._killed_at = 0.0
        self._broker = broker
        self._points = list(points)
        self._rng = rng
        self._commits = 0
        self._lives: list[threading.Thread] = []

    def around(self, producer, commit) -> None:
        """Run one commit, with a kill where one is due: every eighth."""
        self._commits += 1
        if self._commits % 8 or not self._points:
            commit()
            return
        point = self._points.pop(0)
        if point != "commit":
            _flush(producer)  # so that the commit has nothing left to do but to ask for the commit
        if point == "open":
            self._kill()
        elif point in {"unanswered", "unknown"}:
            freeze(self._broker)
            self._later(0.3, down_s=COMMIT_TIMEOUT_S + 1 if point == "unknown" else 0)
        else:
            self._later(self._rng.uniform(0, 0.008))
        began, ending = time.monotonic(), "answered"
        try:
            commit()
        except AggregatorError as error:
            ending = type(error).__name__
            raise
        finally:
            self.hits.append((point, began < self._killed_at < time.monotonic(), ending))
            print(self.hits[-1], f"after {time.monotonic() - began:.1f} s")

    def _later(self, delay_s: float, *, down_s: float = 0) -> None:
        self._lives.append(threading.Timer(delay_s, self._kill, (down_s,)))
        self._lives[-1].start()

    def _kill(self, down_s: float = 0) -> None:
        assert self._broker.pid is not None
        self._killed_at = time.monotonic()
        self._broker.kill()
        self._lives.append(threading.Timer(down_s, self._broker.start))
        self._lives[-1].start()

    def settle(self) -> None:
        """Wait until the broker is there."""
        while self._lives:
            self._lives.pop().join(120)

    def world(self) -> type[KafkaSlotPorts]:
        """A slot's world whose commits this killer sees."""
        killer = self

        class Writer(TransactionalWriter):
            def commit(self) -> None:
                killer.around(self._producer, super().commit)

        class World(KafkaSlotPorts):
            def open_writer(self) -> TransactionalWriter:
                return Writer(self._config.central, self._names.slot_id(self._slot), batch_bytes=self._batch_bytes)

        return World


def _flush(producer) -> None:
    """The product flushes in a commit only."""
    library.rd.flush(producer.handle, 10_000)


def undecided(trial, topic: str) -> dict[int, tuple[int, int]]:
    """Partitions of a central topic whose last stable offset is not their end: (last stable offset, end)."""
    admin = trial.admin("central")
    at = [TopicPartition(topic, p) for p in admin.list_topics(topic, timeout=10).topics[topic].partitions]
    ends = []
    for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED):
        asked = admin.list_offsets(dict.fromkeys(at, OffsetSpec.latest()), isolation_level=level)
        ends.append({one.partition: future.result(15).offset for one, future in asked.items()})
    return {p: (stable, ends[1][p]) for p, stable in ends[0].items() if stable != ends[1][p]}


def _went_on(killer: Killer, running, hits: int) -> bool:
    """Whether there was another kill, or the slot has ended."""
    return len(killer.hits) > hits or not running.is_alive()


def test_central_is_killed_in_a_transaction_and_in_a_commit(epochs):
    """Fault 4 (I1, I4): open, unanswered, unknown and answered commits; nothing lost or twice, and no end is stuck."""
    trial = epochs.trial
    rng = seeded()
    points = ["open", "unanswered", "commit", "unknown", "commit"]
    killer = Killer(trial.sandbox.central, points, rng)
    (plan,) = epochs.plans(drain=False)
    with trial.traffic("eu", "us", batch=20, pause_s=0.02) as produced:
        running = epochs.start(plan, killer.world())
        while len(killer.hits) < len(points):
            wait_for(partial(_went_on, killer, running, len(killer.hits)), timeout=90, what="a kill")
            if not running.is_alive():  # what a kill left undecided ends an epoch, and the next one settles it
                assert running.outcome(1).result in {"stopped", "superseded", "fenced"}
                killer.settle()
                (plan,) = epochs.plans(central=epochs.driver(), drain=False)
                running = epochs.start(plan, killer.world())
        time.sleep(1)
        killer.settle()
    print(killer.hits)
    if running.is_alive():
        epochs.driver().publish(plan.epoch)
    assert running.outcome(90).result in {"stopped", "superseded", "fenced"}
    assert len(killer.hits) == len(points)
    assert all(hit for point, hit, _ in killer.hits if point in {"unanswered", "unknown"}), "the fault did not hit"
    assert ("unknown", True, "OutcomeUnknown") in killer.hits
    for plan in epochs.plans(central=epochs.driver()):
        assert epochs.run(plan).result == "drained"
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)
        assert undecided(trial, f"{edge}.{trial.topic}") == {}, "a last stable offset is stuck"
    assert undecided(trial, epochs.names.ledger) == {}


@pytest.mark.spark
def test_central_is_killed_under_a_running_hub(trial, arrivals):
    """Fault 4 (I1-I4, I8): the hub goes on, or ends with 1 and a next step for its supervisor; then all is there."""
    central, took = trial.sandbox.central, []
    with supervised(trial, "--only", "replicate") as hub, trial.traffic("eu", "us") as produced:
        arrivals["eu"].reach(300, timeout=120)
        for down_s in (0.0, 4.0):
            pid, before = central.pid, produced["eu"]
            central.kill()
            time.sleep(down_s)
            central.start()
            assert central.pid not in {None, pid}
            took.append(arrivals["eu"].reach(before + 1000, timeout=90))
    print(f"recovered in {took} s, ends {hub.ends}")
    assert {code for code, _ in hub.ends} <= {1}
    assert all("next:" in words for _, words in hub.ends)
    trial.drain()
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge])


@pytest.mark.spark
def test_an_outage_of_central_is_not_charged_to_edges(trial, arrivals):
    """Both edges run all along: neither is called stalled, and their availability is what it was."""
    central = trial.sandbox.central
    with supervised(trial, "--only", "replicate"), trial.traffic("eu", "us") as produced:
        arrivals["eu"].reach(300, timeout=120)
        time.sleep(10)  # states have settled
        before = {edge: len(trial.told_states(edge)) for edge in ("eu", "us")}
        central.kill()
        time.sleep(20)
        central.start()
        arrivals["eu"].reach(produced["eu"], timeout=90)
        time.sleep(10)
        told = {edge: [state for _, state in trial.told_states(edge)[before[edge] :]] for edge in ("eu", "us")}
        shares = {one["edge"]: one["availability"]["1h"]["available"] for one in trial.status()["edges"]}
    assert {state for states in told.values() for state in states} <= {"UP", "LAGGING"}
    assert shares == {"eu": 1.0, "us": 1.0}
