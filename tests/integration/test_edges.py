"""Edges on real brokers: a state is found in time, told to everybody, and kept."""

import json
import threading
import time

import pytest

from aggregator.kafka.names import HubNames
from aggregator.observe.monitor import Monitor
from aggregator.replicate.beats import HeartbeatEmitter
from aggregator.replicate.discovery import EdgeWatch
from tests.trial import read_all, wait_for

pytestmark = pytest.mark.brokers

# Three beats and two seconds.
IN_TIME_S = 5.0


class Watched:
    """Everything of a running hub but Spark: beats, one slot in a thread, and the monitor that tells."""

    def __init__(self, epochs):
        self._epochs, self._stop = epochs, threading.Event()
        for edge in epochs.config.edges:
            EdgeWatch(epochs.config, edge)._ensure_heartbeats()
        self._emitter = HeartbeatEmitter(epochs.config)
        self._emitter.start()
        (self._plan,) = epochs.plans(drain=False, beats=True)
        self._slot = epochs.start(self._plan)
        self.monitor = Monitor(epochs.config, self._stop, publish=True)
        self.monitor.start()

    def end(self):
        """End as a hub does: the slot first, the monitor's last word after it."""
        self._epochs.central.publish(self._plan.epoch)
        assert self._slot.outcome().result == "stopped"
        self._emitter.stop()
        self._stop.set()
        self.monitor.join(10)

    def states(self) -> dict[str, str]:
        """What the monitor says now."""
        seen = self.monitor.latest()
        return {edge.edge: edge.state for edge in seen.status.edges} if seen else {}


def told(trial, edge: str) -> list[tuple[float, str]]:
    """(central's stamp in seconds, state) of what was told of an edge, in order."""
    log = read_all(trial.sandbox.central.bootstrap, HubNames(trial.hub).edge_status)
    found = [m for m in log if m.key() == f"state/{edge}".encode()]
    assert {m.timestamp()[0] for m in found} == {2}, "LogAppendTime"
    return [(m.timestamp()[1] / 1000, json.loads(m.value())["state"]) for m in found]


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
        named_s = next(at_s for at_s, state in told(trial, "eu") if state == "UNREACHABLE")
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
    again = Monitor(epochs.config, threading.Event(), publish=False)
    assert {edge: kept.availability.state for edge, kept in again._accounts.items()} == {
        "eu": "UNREACHABLE",
        "us": "UP",
    }
    assert again._accounts["eu"].spans == hub.monitor._accounts["eu"].spans
