"""MirrorMaker 2's own readers understand our positions: its formatters, and the client that applications use."""

import threading

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from aggregator.config.load import load_config
from aggregator.observe.observation import HubObserver
from aggregator.threads import Threads
from tests.trial import read_all, settle, wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


def formatted(java, kind: str, message) -> str:
    """What MirrorMaker 2's own formatter for the console consumer makes of one record."""
    out = java.java.io.ByteArrayOutputStream()
    record = java.org.apache.kafka.clients.consumer.ConsumerRecord(
        message.topic(), 0, message.offset(), message.key(), message.value()
    )
    formatter = getattr(java.org.apache.kafka.connect.mirror.formatters, kind)()
    formatter.writeTo(record, java.java.io.PrintStream(out))
    return out.toString().strip()


def test_mirrormaker_reads_our_positions(trial, java):
    """Its formatters print what we wrote, and `RemoteClusterUtils` translates a group by it."""
    trial.settings["offsets"] = {"syncs": True, "groups": [f"billing-{trial.mark}"], "interval": "1s"}
    trial.write()
    trial.produce("eu", 90)
    trial.drain_here("--only", "replicate")
    group, topic = f"billing-{trial.mark}", f"eu.{trial.topic}"
    positions = [TopicPartition(trial.topic, at, 10 + at) for at in range(3)]
    settle(trial.admin("eu").alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, positions)]))
    stop, central = threading.Event(), trial.sandbox.central.bootstrap
    watching = HubObserver(load_config(trial.config, {}), stop, Threads(stop), wanted=True)
    watching.begin()
    try:
        there = wait_for(
            lambda: (
                "eu.checkpoints.internal" in trial.admin("central").list_topics(timeout=10).topics
                and len(told := read_all(central, "eu.checkpoints.internal")) == 3
                and told
            ),
            timeout=60,
            what="three checkpoints",
        )
    finally:
        watching.finish()
    told = "\n".join(formatted(java, "CheckpointFormatter", message) for message in there)
    for at in range(3):
        assert f"consumerGroupId={group}, topicPartition={topic}-{at}, upstreamOffset={10 + at}," in told
    said = [formatted(java, "OffsetSyncFormatter", one) for one in read_all(central, "mm2-offset-syncs.eu.internal")]
    for at in range(3):
        assert any(one.startswith(f"OffsetSync{{topicPartition={trial.topic}-{at}, upstreamOffset=") for one in said)
    assert all(
        one.startswith((f"OffsetSync{{topicPartition={trial.topic}-", "OffsetSync{topicPartition=heartbeats-0"))
        for one in said
    )
    settings = java.java.util.HashMap()
    settings.put("bootstrap.servers", central)
    found = java.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
        settings, "eu", group, java.java.time.Duration.ofSeconds(30)
    )
    translated = {str(at): found[at].offset() for at in found}
    first = {}
    for message in trial.central_records("eu"):
        _, _, _, partition, offset, _ = dict(message.headers())["hub.origin"].decode().split("/")
        if int(offset) == 10 + int(partition):
            first[f"{topic}-{partition}"] = message.offset()
    assert translated == first
