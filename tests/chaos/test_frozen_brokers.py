"""Brokers that stand still and keep their connections."""

import threading
import time

import pytest

from aggregator.errors import Unreachable
from aggregator.kafka.readers import ends
from aggregator.observe.monitor import Monitor
from aggregator.state.control import Lease
from aggregator.threads import Threads
from tests.trial import wait_for
from tests.watched import Watched

pytestmark = [pytest.mark.ci, pytest.mark.brokers]

# Three beats and two seconds.
IN_TIME_S = 5.0


def test_to_its_end_a_leader_that_stands_still_is_no_empty_log(clusters, epochs):
    """Its connection stays: librdkafka makes a result without an error of it, and every log would end at nothing."""
    epochs.central.publish(Lease("first", 1))
    cluster, at = epochs.config.central, (epochs.names.control, 0)
    assert ends.log_end_offsets(cluster, [at])[at] > 0
    clusters.central.freeze()
    try:
        time.sleep(0.5)
        for ask in (ends.stable_end_offsets, ends.log_offsets):
            with pytest.raises(Unreachable, match=r"did not answer in time|Timed out"):
                ask(cluster, [at], timeout_s=1)
            refused: ends.PartitionErrors = {}
            assert ask(cluster, [at], timeout_s=1, refused=refused) == {}
            assert list(refused) == [at]
        with pytest.raises(Unreachable, match=r"did not answer in time|Timed out"):
            ends.leader_epoch(cluster, at, timeout_s=1)
        assert ends.undecided_ranges(cluster, [at], wait_s=1) == {}, "what does not answer is not decided"
    finally:
        clusters.central.thaw()
    assert epochs.central.read_control().lease == Lease("first", 1)


def test_a_frozen_edge_is_named_in_time_and_what_was_told_outlives_the_hub(epochs):
    """Fault 5: UNREACHABLE within three beats and two seconds, by central's stamps, while the other edge is UP.

    `status` and the next hub have it from central, with how available each edge was.
    """
    trial = epochs.trial
    trial.produce("eu", 30)
    hub, broker = Watched(epochs), trial.sandbox.edges["eu"]
    wait_for(lambda: set(hub.states().values()) == {"UP"}, timeout=30, what="both edges UP")
    broker.freeze()
    try:
        frozen_s = time.time()
        wait_for(lambda: hub.states()["eu"] == "UNREACHABLE", timeout=10, what="its state")
        time.sleep(1.5)  # so that there is some of that state to tell of
        hub.end()
        named_s = next(at_s for at_s, state in trial.told_states("eu") if state == "UNREACHABLE")
        assert named_s - frozen_s < IN_TIME_S
        assert hub.states()["us"] == "UP"
    finally:
        broker.thaw()
    seen = hub.monitor.latest()
    lags = {flow.edge: flow.lag_records for flow in seen.status.flows if flow.topic == trial.topic}
    assert lags["us"] == 0
    assert lags["eu"] in (0, None), "known for ten seconds at most, once an edge does not answer"
    assert [slot.slot for slot in seen.slots] == [0]
    assert seen.slots[0].transactions > 3
    (eu, us) = trial.status()["edges"]
    assert us["availability"]["1h"]["available"] == 1.0 > eu["availability"]["1h"]["available"] > 0
    again = Monitor(epochs.config, threading.Event(), Threads(), publish=False)
    assert {edge: kept.availability.state for edge, kept in again._accounts.items()} == {
        "eu": "UNREACHABLE",
        "us": "UP",
    }
    assert again._accounts["eu"].spans[-1].state == "UNREACHABLE"
    again.close()
