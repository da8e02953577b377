"""An edge's clock is wrong: ten minutes, a year, backwards while the hub runs.

libfaketime shifts the wall clock of the edge's whole broker process (Debian: `faketime`); its monotonic clock is left
alone, as a wrong time zone or a broken time server leaves it. Where it is not installed, records and beats with wrong
times are written by a plain client instead.
"""

import json
import os
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from aggregator.edges.heartbeats import Heartbeat
from tests.chaos.promptness import keeps_flowing
from tests.trial import read_all, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
MINUTES_S = 600
YEAR_S = 365 * 86_400
SHIFTS_S = (MINUTES_S, -MINUTES_S, YEAR_S, -YEAR_S)
START_S = 120.0
RECOVERY_S = 60.0
# A beat is written, taken and stamped within this.
WAY_S = 5.0


@contextmanager
def faked(shift_s: int):
    """Processes that are started in this block have another wall clock."""
    shifted = {
        "LD_PRELOAD": str(LIBRARY),
        "FAKETIME": f"{shift_s:+d}",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
        "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else every wait of the JVM returns at once, and it spins
    }
    os.environ.update(shifted)
    try:
        yield
    finally:
        for name in shifted:
            del os.environ[name]


def edge_of(trial, name: str) -> dict:
    """What `status` says of an edge."""
    return next(edge for edge in trial.status()["edges"] if edge["edge"] == name)


def shown(trial, shift_s: int) -> dict | None:
    """The edge once it is UP with this skew."""
    seen = edge_of(trial, "eu")
    return seen if seen["state"] == "UP" and abs((seen["skew_ms"] or 0) / 1000 - shift_s) < WAY_S else None


def states_told(trial, edge: str) -> list[str]:
    """Every state that the hub told of an edge, in order, without repetitions."""
    log = read_all(trial.sandbox.central.bootstrap, f"{trial.hub}.edge-status")
    told = [json.loads(m.value())["state"] for m in log if m.key() == f"state/{edge}".encode()]
    return [state for place, state in enumerate(told) if told[place - 1 : place] != [state]]


@pytest.mark.skipif(LIBRARY is None, reason="libfaketime is not installed (Debian: faketime)")
def test_fault_17_the_clock_of_an_edges_broker_is_wrong(trial, arrivals):
    """Fault 17 (I1, I4, I7): ahead and behind, by minutes and by a year, and so backwards in between: the edge is UP by
    arrival, its skew is shown, its records come through once and in order, and the other edge never notices.
    """
    trial.delete("eu")
    broker, produced_eu, took = trial.sandbox.edges["eu"], 0, None
    broker.stop()
    with faked(SHIFTS_S[0]):
        broker.start()
    trial.create("eu", message_timestamp_type="LogAppendTime")
    try:
        with trial.running("--only", "replicate") as hub, trial.traffic("us") as produced:
            for shift_s in SHIFTS_S:
                if shift_s != SHIFTS_S[0]:
                    broker.stop()
                    with faked(shift_s):
                        broker.start()
                trial.produce("eu", 300)
                produced_eu += 300
                took = arrivals["eu"].reach(produced_eu, hub=hub, timeout=START_S if took is None else RECOVERY_S)
                late_s = [m.timestamp()[1] / 1000 - time.time() - shift_s for m in trial.central_records("eu")]
                hit = sum(abs(one) < START_S for one in late_s)
                assert hit == 300, "the clock is right: the fault did not hit"
                seen = wait_for(lambda shift_s=shift_s: shown(trial, shift_s), timeout=60, what=f"UP, and {shift_s} s")
                assert seen["heartbeat_age_ms"] < 1000 * WAY_S
                flowed = keeps_flowing(arrivals["us"], produced, "us", for_s=3, hub=hub)
                print(f"{shift_s:+d} s: came in {took} s, skew {seen['skew_ms']} ms, the other edge {flowed}")
            assert set(states_told(trial, "us")) <= {"LAGGING", "UP"}
            assert not set(states_told(trial, "eu")) & {"LOSING_DATA", "PAUSED"}
        trial.drain("--only", "replicate")
        trial.check_exactly_once("eu", produced_eu, lake=False)
    finally:
        broker.stop()
        broker.start()


def test_fault_17_records_and_beats_with_wrong_times(trial, arrivals):
    """Fault 17: producers near the edge stamp years away from now, and a beat's writer does, too: every record comes
    through with its time, the edge is UP by arrival, and the writer's clock is shown.
    """
    trial.settings["heartbeats"] = {"emit": False}
    trial.write()
    trial.configure("eu", trial.topic, "message.timestamp.after.max.ms", str(2**63 - 1))
    if "heartbeats" not in trial.admin("eu").list_topics(timeout=10).topics:  # no hub that emits has run here
        trial.create("eu", 1, topic="heartbeats")
    now_ms, beats = int(time.time() * 1000), Producer({"bootstrap.servers": trial.sandbox.edges["eu"].bootstrap})
    for shift_s in SHIFTS_S:
        trial.produce("eu", 30, timestamp_ms=now_ms + shift_s * 1000)

    def seen() -> dict:
        beat = Heartbeat("near-eu", "eu", int(time.time() * 1000) - YEAR_S * 1000)
        beats.produce("heartbeats", beat.encode_value(), beat.encode_key(), 0)
        assert beats.flush(10) == 0
        return edge_of(trial, "eu")

    with trial.running("--only", "replicate") as hub:
        arrivals["eu"].reach(120, hub=hub, timeout=120)
        wait_for(lambda: seen()["state"] == "UP", timeout=60, what="the state UP")
        wait_for(lambda: abs((seen()["skew_ms"] or 0) / 1000 + YEAR_S) < WAY_S, timeout=30, what="the writer's skew")
    stamps = {m.timestamp()[1] for m in trial.central_records("eu")}
    assert stamps == {now_ms + shift_s * 1000 for shift_s in SHIFTS_S}, "timestamps are preserved"
    trial.drain("--only", "replicate")
    trial.check_exactly_once("eu", 120, lake=False)
