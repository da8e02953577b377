"""What a person sees of a running hub and asks of it: states, metrics, a pause; and beats from near an edge."""

import json
import urllib.request

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation

from aggregator.edges.heartbeats import decode
from aggregator.sandbox.ports import free_ports
from tests.chaos.lines import AUTHORIZER, FIRST_PASSWORD, right
from tests.chaos.promptness import keeps_flowing, state_of
from tests.trial import read_all, settle, wait_for

pytestmark = [pytest.mark.brokers]

SHOWN_S = 30.0


def metrics(port: int) -> dict[str, float]:
    """What a scrape gets, by series."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


@pytest.mark.spark
def test_an_edge_rests_and_goes_on_and_everybody_is_told(trial, arrivals):
    """A pause stops one edge's flows and no other's, is shown with who and why, outlives the hub, and ends as asked;
    metrics, `top` and `status --exit-when-healthy` tell the same hub.
    """
    (port,) = free_ports(1)
    with trial.running("--only", "replicate", "--metrics", str(port)) as hub, trial.traffic("eu", "us") as produced:
        for edge in produced:
            arrivals[edge].reach(200, hub=hub, timeout=120)
        assert trial.run("status", "--exit-when-healthy", "-o", "json", timeout=60).returncode == 0
        asked = trial.run("edge", "pause", "eu", "--reason", "brokers are moved", "--by", "ada@desk")
        assert asked.returncode == 0, asked.stderr
        wait_for(lambda: state_of(trial, "eu")[0] == "PAUSED", timeout=SHOWN_S, what="the state PAUSED")
        held = arrivals["eu"].count()
        print(keeps_flowing(arrivals["us"], produced, "us", for_s=5, hub=hub))
        assert arrivals["eu"].count() - held < 100, "it was in flight when the epoch ended, or the pause does not hold"
        found = metrics(port)
        assert found['aggregator_edge_state{edge="eu",state="PAUSED"}'] == 1
        assert found['aggregator_edge_state{edge="us",state="UP"}'] == 1
        assert found[f'aggregator_records_delivered_total{{edge="us",topic="{trial.topic}"}}'] > 200
        assert found["aggregator_epoch_changes_total"] >= 2
        assert found['aggregator_transactions_total{slot="0"}'] > 0
        for client in ("edge us", "central"):
            series = f'aggregator_client_brokers_up{{slot="0",client="{client}"}}'
            wait_for(
                lambda series=series: metrics(port).get(series) == 1, timeout=20, what=f"librdkafka's words of {client}"
            )
        hub.terminate()
        assert hub.wait(60) == 0, hub.log.read_text()
        assert "no hub watches" in trial.run("status").stdout
    reach = arrivals["eu"].count()
    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: state_of(trial, "us")[0] == "UP", timeout=90, what="the next hub")
        edges = json.loads(trial.run("edge", "list", "-o", "json").stdout)
        (eu,) = [one for one in edges if one["edge"] == "eu"]
        assert eu["state"] == "PAUSED"
        assert "ada@desk" in eu["reason"]
        assert "brokers are moved" in eu["reason"]
        assert eu["availability"]["1h"]["available"] > 0.9
        assert arrivals["eu"].count() == reach
        assert trial.run("edge", "resume", "eu").returncode == 0
        assert trial.run("edge", "resume", "eu").returncode == 1, "it is not paused any more"
        arrivals["eu"].reach(produced["eu"], hub=hub, timeout=60)
        wait_for(lambda: state_of(trial, "eu")[0] == "UP", timeout=SHOWN_S, what="the state UP")
        told = json.loads(trial.run("top", "-o", "json").stdout)
        assert {row["topic"] for row in told["topics"]} == {trial.topic, "heartbeats"}
    trial.drain("--only", "replicate")
    for edge in ("eu", "us"):
        trial.check_exactly_once(edge, produced[edge], lake=False)


def test_beats_are_written_by_a_principal_that_may_do_nothing_else(trial, lines):
    """`heartbeat emit` needs Write on `heartbeats` of its edge: with it beats arrive as MirrorMaker 2 reads them, and
    without it one sentence says what is missing; nothing else may be written or is asked for.
    """
    broker = trial.sandbox.edges["eu"]
    trial.admin("eu")
    broker.kill()
    broker.start(AUTHORIZER)
    try:
        if "heartbeats" not in trial.admin("eu").list_topics(timeout=20).topics:
            trial.create("eu", 1, topic="heartbeats", cleanup_policy="compact")
        lines.guard(trial, "eu")
        refused = trial.run("heartbeat", "emit", "--edge", "eu", "--for", "10s")
        assert refused.returncode == 1
        assert "the right to write `heartbeats`" in refused.stderr
        settle(trial.admin("eu").create_acls([right("heartbeats", AclOperation.WRITE)]))
        before = len(read_all(broker.bootstrap, "heartbeats"))
        done = trial.run("heartbeat", "emit", "--edge", "eu", "--source", "near-eu", "--for", "4s")
        assert done.returncode == 0, done.stderr
        beats = read_all(broker.bootstrap, "heartbeats")[before:]
        assert len(beats) >= 3
        assert {decode(m.key(), m.value())[:2] for m in beats} == {("near-eu", "eu")}
        assert FIRST_PASSWORD not in done.stderr + refused.stderr
        errors = []
        other = Producer(
            {
                "bootstrap.servers": f"127.0.0.1:{lines.guarded['eu'][0]}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "hub",
                "sasl.password": FIRST_PASSWORD,
                "message.timeout.ms": 5000,
            }
        )
        other.produce(trial.topic, b"x", on_delivery=lambda error, _: errors.append(error))
        other.flush(10)
        assert errors[0] is not None, "it may write the orders, too: the test proves nothing"
    finally:
        broker.kill()
        broker.start()
