"""Edge logs that lose records by themselves: a tail that a power cut took, and what compaction removes."""

import struct
import threading

import pytest

from aggregator.errors import Unreachable
from aggregator.kafka.readers.ends import leader_epoch
from tests.chaos.log_lines import told
from tests.trial import read_all, wait_for

pytestmark = [pytest.mark.brokers]

# Base offset and length of a record batch, format v2.
BATCH = struct.Struct(">qi")


def audited(trial) -> None:
    """The edge and central are equal; the lake, which these hubs do not run, is not compared and says why."""
    for flow in told(trial, "audit", "--edge", "eu", "--topic", trial.topic, expect=4)["flows"]:
        assert flow["parts"] == {"edge": "equal", "central": "equal", "lake": "not compared"}, flow
        assert {one["kind"] for one in flow["not_compared"] if not one["final"]} <= {"no_table"}


def truncation_gap(cluster, topic: str, partition: int, offset: int) -> None:
    """End the log of a stopped broker before `offset`, as a power cut does that takes what was not yet on disk."""
    (broker,) = cluster.brokers
    (log,) = (broker.data / f"{topic}-{partition}").glob("*.log")
    content, at = log.read_bytes(), 0
    while at < len(content):
        base, length = BATCH.unpack_from(content, at)
        if base >= offset:
            break
        at += BATCH.size + length
    assert 0 < at < len(content), "nothing to cut"
    log.write_bytes(content[:at])
    for index in (*log.parent.glob("*.index"), *log.parent.glob("*.timeindex")):
        index.unlink()


def test_a_truncated_log_is_an_alarm_and_never_a_reset(epochs):
    """Fault 3: the end below our position holds that flow, also when the log has grown again; a rewind is accepted."""
    trial, broker = epochs.trial, epochs.trial.sandbox.edges["eu"]
    for _ in range(2):
        trial.produce("eu", 30)
    (plan,) = epochs.plans(drain=False)
    running = epochs.start(plan)
    wait_for(lambda: trial.central_count("eu") == 60, timeout=60, what="the delivery")
    broker.kill()
    truncation_gap(broker, trial.topic, 0, 10)
    broker.start()
    trial.produce_raw("eu", [(b"new", trial.value(1000 + n), 0) for n in range(3)])
    trial.produce_raw("eu", [(b"k", trial.value(60), 1)])
    wait_for(lambda: trial.central_count("eu") == 61, timeout=90, what="the other flows")
    wait_for(lambda: "gap" in trial.ledger()["eu", 0], timeout=60, what="the alarm")
    epochs.central.publish(plan.epoch)
    assert [(hold.source.partition, hold.reason) for hold in running.outcome().holds] == [(0, "gap")]
    trial.produce_raw("eu", [(b"new", trial.value(1000 + n), 0) for n in range(3, 30)])
    (held,) = epochs.run(*epochs.plans()).holds
    assert (held.gap.start, held.gap.end) == (10, None), "where it was cut, not where it had grown to again"
    (gap,) = told(trial, "gaps", "list")
    assert (gap["kind"], gap["from"], gap["to"], gap["state"]) == ("truncated", 10, None, "open")
    at = ("--edge", "eu", "--topic", trial.topic, "--reason", "disk was lost", "--yes")
    told(trial, "gaps", "accept", *at)
    assert epochs.run(*epochs.plans()).holds == ()
    origins = [(incarnation, offset) for partition, incarnation, offset in trial.origins("eu") if partition == 0]
    assert origins == [*((0, n) for n in range(20)), *((1, n) for n in range(10, 40))]
    audited(trial)


def test_a_log_that_was_cut_and_grew_again_while_the_hub_was_down(epochs):
    """Fault 3: the position is there again, with other records before it; the edge's leader epoch tells."""
    trial, broker = epochs.trial, epochs.trial.sandbox.edges["eu"]
    for _ in range(2):
        trial.produce("eu", 30)
    assert epochs.run(*epochs.plans()).holds == ()
    broker.kill()
    truncation_gap(broker, trial.topic, 0, 10)
    broker.start()
    trial.produce_raw("eu", [(b"new", trial.value(1000 + n), p) for n in range(30) for p in range(2)])
    (held,) = epochs.run(*epochs.plans()).holds
    assert (held.source.partition, held.gap.kind, held.gap.start) == (0, "truncated", 10)
    told(trial, "gaps", "accept", "--edge", "eu", "--topic", trial.topic, "--reason", "disk was lost", "--yes")
    assert epochs.run(*epochs.plans()).holds == ()
    origins = [(incarnation, offset) for partition, incarnation, offset in trial.origins("eu") if partition == 0]
    assert origins == [*((0, n) for n in range(20)), *((1, n) for n in range(10, 40))]
    audited(trial)


def test_a_log_that_was_cut_and_grew_again_while_a_flow_waited(epochs):
    """Fault 3: a flow that waits for a registry is not read; when it is read again, the edge's leader epoch tells."""
    trial, broker = epochs.trial, epochs.trial.sandbox.edges["eu"]
    away, asked, back = threading.Event(), threading.Event(), threading.Event()

    class Registry:
        """The trial's strip, behind a registry that takes its time once, and then does not answer."""

        def __init__(self, strip):
            self._strip = strip

        def __getattr__(self, name):
            return getattr(self._strip, name)

        def strip(self, batch):
            if away.is_set():
                away.clear()
                asked.set()
                assert back.wait(120), "so that nothing is read before the log has grown again"
                raise Unreachable("the registry does not answer", hint="start it")
            return self._strip.strip(batch)

    (plan,) = epochs.plans(drain=False)
    assert {flow.entry.leader_epoch for flow in plan.flows} == {0}, "known before the first record"
    running = epochs.start(plan, behind=Registry)
    for _ in range(2):
        trial.produce("eu", 30)
    wait_for(lambda: trial.central_count("eu") == 60, timeout=60, what="the delivery")
    away.set()
    trial.produce_raw("eu", [(b"k", trial.value(60), 0)])
    asked.wait(30)
    before = leader_epoch(broker.config, (trial.topic, 0), timeout_s=5.0)
    broker.kill()
    truncation_gap(broker, trial.topic, 0, 10)
    broker.start()
    trial.produce_raw("eu", [(b"new", trial.value(1000 + n), 0) for n in range(30)])
    assert leader_epoch(broker.config, (trial.topic, 0), timeout_s=5.0) > before
    back.set()
    wait_for(lambda: "gap" in trial.ledger()["eu", 0], timeout=60, what="the alarm")
    epochs.central.publish(plan.epoch)
    (held,) = running.outcome().holds
    assert (held.gap.kind, held.gap.start) == ("truncated", 10)
    told(trial, "gaps", "accept", "--edge", "eu", "--topic", trial.topic, "--reason", "disk was lost", "--yes")
    assert epochs.run(*epochs.plans()).holds == ()
    origins = [(incarnation, offset) for partition, incarnation, offset in trial.origins("eu") if partition == 0]
    assert origins == [*((0, n) for n in range(20)), *((1, n) for n in range(10, 40))]


def test_compaction_raises_no_gap(epochs):
    """Fault 16: sparse offsets are no gap, whether they were read before they went or not."""
    trial = epochs.trial
    quick = {
        "cleanup.policy": "compact",
        "segment.ms": "100",
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "100",
    }
    for name, value in quick.items():
        trial.configure("eu", trial.topic, name, value)
    trial.produce("eu", 90)
    assert epochs.run(*epochs.plans()).holds == ()
    for _ in range(2):
        trial.produce("eu", 90)

    def compacted() -> bool:
        trial.produce_raw("eu", [(b"tick", trial.value(0), p) for p in range(3)])
        return len(read_all(trial.sandbox.edges["eu"].bootstrap, trial.topic)) < 150

    wait_for(compacted, timeout=120, what="a compaction")
    outcome = epochs.run(*epochs.plans())
    assert (outcome.result, outcome.holds) == ("drained", ())
    assert told(trial, "gaps", "list") == []
    assert len(trial.central_records("eu")) < 270, "some were gone before they were read"
    audited(trial)


@pytest.mark.ci
@pytest.mark.spark
def test_a_topic_recreated_while_the_hub_was_down_starts_a_new_life(new_trial):
    """Faults 14 and 15 with two slots: another topic id is another incarnation, even where the new log is longer."""
    trial = new_trial(slots=2)
    trial.produce("eu", 30)
    trial.produce("us", 60)
    trial.drain()
    assert {body["ledger_partition"] for body in trial.ledger().values()} == {0, 1}
    trial.delete("eu")
    trial.create("eu")
    trial.produce("eu", 90)
    trial.widen("us", 5)
    trial.produce_raw("us", [(b"late", trial.value(60), 4)])
    trial.drain()
    trial.check_exactly_once("eu", 120)
    trial.check_exactly_once("us", 61)
    lives = {(body["incarnation"], body["next_offset"]) for (edge, _), body in trial.ledger().items() if edge == "eu"}
    assert lives == {(1, 30)}
