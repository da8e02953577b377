"""A sandbox of three brokers is a cluster: three replicas of every topic, and one of the brokers may be away."""

import json
import subprocess
import sys

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from aggregator.kafka.cluster.topic_spec import TopicSpec
from aggregator.kafka.cluster.topics import ensure
from aggregator.sandbox.readback import count_topic
from aggregator.sandbox.sandbox import Sandbox

pytestmark = pytest.mark.brokers


def aggregator(*arguments):
    """A command in a process of its own."""
    command = [sys.executable, "-m", "aggregator.cli.main", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)


def test_three_brokers_keep_three_replicas_and_one_may_be_away(tmp_path):
    """Every topic, Kafka's own too, is on three brokers and needs two; stop, kill, a new controller, and up again."""
    ran = aggregator("sandbox", "up", "--edges", "jfk", "--brokers", "central=3", "--dir", tmp_path, "-o", "json")
    assert ran.returncode == 0, ran.stderr
    try:
        central = Sandbox.load(tmp_path).central
        shown = json.loads(ran.stdout)
        assert shown["central"] == central.bootstrap
        assert {name: len(brokers) for name, brokers in shown["brokers"].items()} == {"central": 3, "jfk": 1}
        ensure(central.config, [TopicSpec("kept", 3)])
        _commit_one(central)
        described = _replication(central, ("kept", "__transaction_state", "__consumer_offsets"))
        assert described == dict.fromkeys(described, (3, "2"))
        assert {central.leader("kept", partition) for partition in range(3)} == set(central.brokers)
        first = central.controller()
        first.stop()
        assert [broker.pid is None for broker in central.brokers].count(True) == 1
        assert central.lagging()
        _commit_one(central)
        second = central.controller()
        assert second not in {None, first}
        assert first not in {central.leader("kept", partition) for partition in range(3)}
        first.start()
        central.wait_in_sync()
        second.kill()
        _commit_one(central)
        assert aggregator("sandbox", "down", "--dir", tmp_path).returncode == 0
        assert Sandbox.up(tmp_path).central.bootstrap == central.bootstrap
        assert count_topic(central.config, "kept") == 3
    finally:
        Sandbox.load(tmp_path).down()


def _commit_one(cluster):
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "one", "log_level": 2})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("kept", b"value")
    producer.commit_transaction(60)


def _replication(cluster, topics):
    """Replicas and min.insync.replicas by topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "one"})
    consumer.subscribe(["kept"])
    consumer.poll(10)
    consumer.close()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    known = admin.list_topics(timeout=10).topics
    asked = admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic) for topic in topics])
    least = {resource.name: future.result(15)["min.insync.replicas"].value for resource, future in asked.items()}
    return {topic: (len(known[topic].partitions[0].replicas), least[topic]) for topic in topics}
