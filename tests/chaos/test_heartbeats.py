"""MirrorMaker 2 itself reads our heartbeats: at the edge where they are written, and at central after their way."""

import pytest

from aggregator.edges.heartbeats import decode
from tests.trial import read_all

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
