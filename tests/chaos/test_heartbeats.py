"""Heartbeats on real brokers: MirrorMaker 2 itself reads them, and they outlive their topic."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from aggregator.edges.heartbeats import decode
from aggregator.kafka.writers.lossy_producer import LossyProducer
from tests.chaos.promptness import state_of
from tests.trial import read_all, settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def formatted(java, key: bytes, value: bytes) -> str:
    """What MirrorMaker 2's own formatter for the console consumer makes of one record."""
    out = java.java.io.ByteArrayOutputStream()
    record = java.org.apache.kafka.clients.consumer.ConsumerRecord("heartbeats", 0, 0, key, value)
    java.org.apache.kafka.connect.mirror.formatters.HeartbeatFormatter().writeTo(record, java.java.io.PrintStream(out))
    return out.toString().strip()


def test_mirrormaker_reads_our_heartbeats(trial, java):
    """Its HeartbeatFormatter finds our aliases and times in every beat, as it was written and as it arrived."""
    sent = trial.run("heartbeat", "emit", "--edge", "eu", "--source", "near-eu", "--for", "4s")
    assert sent.returncode == 0, sent.stderr
    trial.drain("--only", "replicate")
    for cluster, topic in ((trial.sandbox.edges["eu"], "heartbeats"), (trial.sandbox.central, "eu.heartbeats")):
        records = read_all(cluster.bootstrap, topic)
        beats = [decode(one.key(), one.value()) for one in records]
        assert sum(beat.source == "near-eu" for beat in beats) >= 3
        for one, beat in zip(records, beats, strict=True):
            told = formatted(java, one.key(), one.value())
            assert told == (
                f"Heartbeat{{sourceClusterAlias={beat.source}, targetClusterAlias={beat.target},"
                f" timestamp={beat.timestamp_ms}}}"
            )


# As long as librdkafka waits before it believes that a topic is gone, and some time after that.
GONE_S = 45.0
AGAIN_S = 60.0


def test_heartbeats_go_on_after_their_topic_was_deleted(trial):
    """The hub makes it anew; no thread ends, and the edge is up again without a restart."""

    def beats() -> int:
        found = read_all(trial.sandbox.edges["eu"].bootstrap, "heartbeats")
        return sum(decode(one.key(), one.value()).source == trial.hub for one in found)

    with trial.running("--only", "replicate") as hub:
        wait_for(lambda: "heartbeats" in trial.admin("eu").list_topics(timeout=10).topics, timeout=60, what="the topic")
        wait_for(beats, timeout=60, what="the first beat")
        settle(trial.admin("eu").delete_topics(["heartbeats"]))
        wait_for(lambda: beats() > GONE_S, timeout=GONE_S + AGAIN_S, what="beats in a topic made anew")
        wait_for(lambda: state_of(trial, "eu")[0] == "UP", timeout=AGAIN_S, what="the state UP")
        assert "heartbeats-eu" not in hub.log.read_text()


def test_what_may_be_lost_is_dropped_where_its_topic_is_gone(trial):
    """Telemetry and heartbeats: nobody who writes them ends for it."""
    outlet = LossyProducer(trial.sandbox.edges["eu"].config)
    trial.delete("eu")

    def is_gone() -> bool:
        try:
            outlet._connection.client.produce(trial.topic, b"of a topic that is gone", None, 0)
        except KafkaException as error:
            return error.args[0].code() == KafkaError._UNKNOWN_TOPIC
        return False

    wait_for(is_gone, timeout=GONE_S, what="the client's word that the topic is gone")
    outlet.offer(trial.topic, b"this is dropped")
    assert is_gone()
    outlet.close()
