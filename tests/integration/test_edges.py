"""Edges on real brokers: a state is found in time, told to everybody, and kept."""

import threading
import time
from collections import Counter

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from aggregator.kafka.client import clients
from aggregator.observe.monitor import Monitor
from aggregator.observe.survey import survey
from aggregator.replicate.discovery.edge_watch import EdgeWatch
from aggregator.state.names import HubNames
from tests.trial import wait_for
from tests.watched import Watched

pytestmark = pytest.mark.brokers


def test_a_hub_that_has_never_run_has_a_status(trial):
    """Who has just written a configuration looks at it: edges as they are, no hub, and no wait for its topics."""
    trial.produce("eu", 3)
    began = time.monotonic()
    found = trial.status()
    assert time.monotonic() - began < 15
    assert {edge["edge"] for edge in found["edges"]} == {"eu", "us"}
    assert not found["watched"]
    assert trial.typed("top", "--looks", "1").exit_code == 0
    for words in (("audit",), ("edge", "pause", "eu", "--reason", "r"), ("offsets", "export", "--mirrormaker2")):
        began = time.monotonic()
        refused = trial.typed(*words)
        assert time.monotonic() - began < 10, words
        assert (refused.exit_code, f"no hub named {trial.hub} has run" in refused.stderr) == (1, True), refused.stderr
    assert not [name for name in trial.admin("central").list_topics(timeout=10).topics if name.startswith(trial.hub)]


def test_a_hub_asks_an_edge_in_one_loop(epochs):
    """Discovery and the monitor read one watch's answer; a monitor without a driver's watches has its own."""
    watches = [EdgeWatch(epochs.config, edge, lambda *_: "") for edge in epochs.config.edges]
    hub = Watched(epochs, watches)
    for watch in watches:
        watch.start(hub.threads)
    wait_for(lambda: set(hub.states().values()) == {"UP"}, timeout=30, what="both edges UP")
    assert [thread.name for thread in threading.enumerate()].count("edge-eu") == 1
    eu, topic = watches[0], epochs.trial.topic
    assert (
        len(eu.topics[topic].log_start_offsets)
        == eu.answer.topics[topic]
        == hub.monitor.latest().topics["eu"][topic]
        == 3
    )
    assert {flow.source for flow in hub.monitor.latest().status.flows if flow.edge == "eu"} == eu.answer.ends.keys()
    for watch in watches:
        watch.stop()
    hub.end()


FORGED = (
    b"Infinity",
    b"[" * 50_000 + b"]" * 50_000,
    b'{"slot":1e400,"epoch":NaN,"transactions":0,"held":{},"waiting":{},"rss_bytes":0,"cpu_s":0}',
    b'{"slot":0,"epoch":1,"transactions":0,"held":{"x":["gap","y"]},"waiting":{},"rss_bytes":0,"cpu_s":0}',
    b'{"kind":"fields","edge":"eu","topic":"t","rows":[[7,"a","b",[],"c","d","e",Infinity,0,0,0,false]],"at_ms":1e30}',
    b"\xff\xfe",
)


@pytest.mark.whole
def test_forged_records_in_the_hubs_own_topics_end_nothing(epochs, caplog):
    """A running hub goes on watching, counts what is none of its own, and says so; its threads stay as they were."""
    trial, hub = epochs.trial, Watched(epochs)
    wait_for(lambda: set(hub.states().values()) == {"UP"}, timeout=30, what="both edges UP")
    names, bootstrap = HubNames(trial.hub), trial.sandbox.central.bootstrap
    before = hub.monitor.latest().number
    day = b'{"v":1,"spans":[[0,9007199254740991,"UP",false]]}'
    keyed = [(b"state/eu", one) for one in FORGED] + [
        (b"day/eu/2026-01-01", day),
        (b"refused", b'{"v":1,"flows":{"x":1}}'),
    ]
    forge(bootstrap, names.telemetry, [(None, one) for one in FORGED])
    forge(bootstrap, names.edge_status, [*keyed, (b"\xff", b"?")])
    forge(bootstrap, names.dead_letters, [(None, one) for one in FORGED])
    forge(bootstrap, names.requests, [(b"gap/x", b"Infinity"), (b"gap/\xff", FORGED[1])])
    forge(bootstrap, "eu.heartbeats", [(b"\xff", b"?"), (None, None)])

    def counted() -> bool:
        return len(hub.monitor.latest().damaged) == 4

    wait_for(counted, timeout=10, what="the count of forged records")
    seen = hub.monitor.latest()
    assert seen.damaged[names.telemetry] == len(FORGED)
    assert seen.damaged[names.edge_status] == len(keyed)
    assert seen.damaged[names.dead_letters] == len(FORGED)
    assert seen.damaged[names.requests] == 2
    wait_for(lambda: hub.monitor.latest().number > before + 3, timeout=10, what="further snapshots")
    wait_for(
        lambda: f"{names.telemetry}: {len(FORGED)} records passed over, none of ours" in caplog.text,
        timeout=15,
        what="a word",
    )
    assert set(hub.states().values()) == {"UP"}
    told = {one["name"]: one for one in trial.status()["threads"]}
    assert {"monitor", "threads", "heartbeats-eu", "probe-eu", "probe-us"} <= told.keys()
    assert {(one["condition"], one["restarts"]) for one in told.values()} == {("running", 0)}
    hub.end()
    assert trial.status()["threads"] == []


def test_a_monitor_that_an_error_ends_is_replaced(epochs, monkeypatch):
    """A foreign error in a look: it is named with its place in `status`, another monitor watches on, numbers grow."""
    hub = Watched(epochs)
    wait_for(lambda: set(hub.states().values()) == {"UP"}, timeout=30, what="both edges UP")
    number, look = hub.monitor.latest().number, Monitor._tick
    broken = iter([True])

    def once(self):
        if next(broken, False):
            raise OverflowError("cannot convert float infinity to integer")
        look(self)

    monkeypatch.setattr(Monitor, "_tick", once)
    wait_for(lambda: hub.monitor.latest().number > number + 2, timeout=20, what="snapshots of another monitor")
    wait_for(lambda: set(hub.states().values()) == {"UP"}, timeout=20, what="both edges UP")
    (monitor,) = (one for one in epochs.trial.status()["threads"] if one["name"] == "monitor")
    assert (monitor["condition"], monitor["restarts"]) == ("running", 1)
    assert monitor["error"].startswith("OverflowError at ")
    assert "infinity" not in monitor["error"]
    hub.end()


def forge(bootstrap: str, topic: str, records) -> None:
    """Write what somebody else might, if there is such a topic."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for key, value in records:
        producer.produce(topic, value, key, 0)
    assert producer.flush(10) == 0


def test_a_look_asks_each_edge_for_its_metadata_once(epochs, monkeypatch):
    """One answer tells whose cluster it is and which topics it has; a client is kept for each cluster."""
    asked, ask = Counter(), AdminClient.list_topics

    def counted(self, *arguments, **options):
        asked[id(self)] += 1
        return ask(self, *arguments, **options)

    monkeypatch.setattr(AdminClient, "list_topics", counted)
    survey(epochs.config, now_ms=int(time.time() * 1000))
    assert [asked[id(clients.admin(one))] for one in epochs.config.edges.values()] == [1, 1]
