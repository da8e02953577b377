"""Clients that a cluster without brokers left without anybody to ask (librdkafka issue 5301): all are replaced.

When a client is taken for lost is in `tests/unit/kafka/test_statistics.py`; here is what follows, on real brokers.
"""

import time

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange
from aggregator.kafka.readers.open_range import read_range
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import StartPosition
from aggregator.kafka.readers.tail import ArrivalTail, LogTail
from aggregator.kafka.writers import heartbeat_writer
from aggregator.kafka.writers.heartbeat_writer import HeartbeatWriter
from aggregator.kafka.writers.lossy_producer import LossyProducer
from tests.trial import read_all, wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]


@pytest.fixture
def edge(clusters):
    """An edge as its hub knows it."""
    return ClusterConfig(bootstrap_servers=clusters.edges["eu"].bootstrap)


def lose(user) -> None:
    """As the reports of its client would have it after a cluster had told that of no brokers."""
    user._connection.statistics._brokerless = 2


def test_a_reader_goes_on_where_it_was(trial, edge):
    """Each record once, none twice, and what was released stays so."""
    trial.produce("eu", 30)
    reader, seen = EdgeReader(edge, buffer_bytes=1 << 20), []

    def read() -> int:
        seen.extend((c.partition, offset) for c in reader.poll(1000, 0.1).chunks for offset in c.offsets)
        return len(seen)

    reader.assign({(trial.topic, partition): StartPosition(0) for partition in range(3)})
    wait_for(lambda: read() == 30, timeout=20, what="the first records")
    reader.incremental_unassign((trial.topic, 2))
    first = reader._connection.client
    lose(reader)
    trial.produce("eu", 30)
    wait_for(lambda: read() >= 50, timeout=20, what="the records after it")
    read()
    assert reader._connection.client is not first
    reader.close()
    assert sorted(seen) == [(p, n) for p in range(3) for n in range(10 if p == 2 else 20)]


def test_a_tail_goes_on_where_it_was(trial, edge):
    """Each record of a partition, in order."""
    trial.produce("eu", 30)
    tail, seen = LogTail(edge, trial.topic, {0: 0}), []

    def read() -> int:
        seen.extend(record.offset for record in tail.poll())
        return len(seen)

    wait_for(lambda: read() == 10, timeout=20, what="the first records")
    first = tail._connection.client
    lose(tail)
    trial.produce("eu", 30)
    wait_for(lambda: read() >= 20, timeout=20, what="the records after it")
    assert tail._connection.client is not first
    tail.close()
    assert seen == list(range(20))


def test_a_tail_whose_position_is_gone_goes_on_with_what_is_there(trial, edge):
    """Retention passes whoever was stopped for longer than it keeps; the client itself would be silent for ever."""
    trial.produce("eu", 30)
    admin = AdminClient({"bootstrap.servers": edge.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(trial.topic, 0, 5)]).values():
        deleted.result(10)
    tail, seen = LogTail(edge, trial.topic, {0: 0, 1: 20}), []

    def read() -> int:
        seen.extend((record.partition, record.offset) for record in tail.poll())
        return len(seen)

    wait_for(lambda: read() >= 15, timeout=20, what="what is there")
    tail.close()
    assert sorted(seen) == [(0, offset) for offset in range(5, 10)] + [(1, offset) for offset in range(10)]


def test_what_is_gone_of_a_range_is_left_out(trial, edge):
    """A note of a range may outlive what lay there: retention, or a topic that was created again."""
    trial.produce("eu", 30)
    admin = AdminClient({"bootstrap.servers": edge.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(trial.topic, 0, 5)]).values():
        deleted.result(10)
    for offsets, count in ((OffsetRange(0, 8), 3), (OffsetRange(2, 4), 0), (OffsetRange(100, 110), 0)):
        assert len(read_range(edge, (trial.topic, 0), offsets, committed=False)) == count


def test_a_tail_of_newest_records_follows_anew(trial, edge):
    """What is followed still is found again by whoever follows it."""
    trial.produce("eu", 3)
    tail = ArrivalTail(edge)

    def values() -> list:
        tail.follow([trial.topic])
        return [arrival.value for arrival in tail.poll()]

    wait_for(lambda: trial.value(0) in values(), timeout=20, what="the first record")
    first = tail._connection.client
    lose(tail)
    trial.produce_raw("eu", [(b"k", trial.value(4711), 0)])
    wait_for(lambda: trial.value(4711) in values(), timeout=20, what="the record after it")
    assert tail._connection.client is not first
    tail.close()


def _telemetry(cluster, topic):
    outlet = LossyProducer(cluster)
    return outlet, lambda value: outlet.offer(topic, value)


def _beats(cluster, _topic):
    writer = HeartbeatWriter(cluster)
    return writer, lambda value: writer.write(b"key", value)


@pytest.mark.parametrize("make", [_telemetry, _beats])
def test_what_writes_without_a_transaction_is_replaced(trial, edge, monkeypatch, make):
    """Telemetry, heartbeats, and beats from the edge."""
    monkeypatch.setattr(heartbeat_writer, "HEARTBEATS", trial.topic)
    writer, write = make(edge, trial.topic)

    def there() -> set:
        return {message.value() for message in read_all(edge.bootstrap_servers, trial.topic)}

    write(b"before")
    wait_for(lambda: there() == {b"before"}, timeout=20, what="the first")
    first = writer._connection.client
    lose(writer)
    write(b"after")
    assert writer._connection.client is not first
    wait_for(lambda: there() == {b"before", b"after"}, timeout=20, what="both")
    writer.close()


def test_telemetry_that_a_lost_client_still_has_holds_up_nobody():
    """What is queued is dropped with the client: its own time-out of ten seconds is not waited for."""
    outlet = LossyProducer(ClusterConfig(bootstrap_servers="127.0.0.1:1"))
    outlet.offer("telemetry", b"before")
    lose(outlet)
    began = time.monotonic()
    outlet.offer("telemetry", b"after")
    assert time.monotonic() - began < 5
    outlet._connection.client.purge()
    outlet.close(0)
