"""The room that speaks librdkafka's C interface, with confluent-kafka on the other side of a real broker."""

import itertools
import logging
import random
import time
import uuid
from collections import defaultdict

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from aggregator.bytes_column import BytesColumn
from aggregator.header_columns import HeaderTable
from aggregator.kafka.client.statistics import ClientStatistics
from aggregator.kafka.native.consumer import Consumer
from aggregator.kafka.native.producer import OutgoingRecords, Producer
from aggregator.kafka.native.topic_ids import TopicIdClient, TopicIdResult
from aggregator.kafka.readers.codes import name_of
from tests.trial import wait_for

pytestmark = pytest.mark.brokers
LOG = logging.getLogger("native")
RECORDS, PARTITIONS = 3000, 3
READING = {
    "group.id": "native",
    "auto.offset.reset": "error",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
}


@pytest.fixture
def draw():
    """Seeded; the seed is printed."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def central(clusters):
    """Bootstrap servers."""
    return clusters.central.bootstrap


@pytest.fixture
def topic(central):
    """A topic of three partitions."""
    name, admin = f"native-{uuid.uuid4().hex[:8]}", AdminClient({"bootstrap.servers": central})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    wait_for(lambda: name in admin.list_topics(timeout=10).topics, timeout=10, what="the topic")
    yield name
    admin.delete_topics([name])[name].result(30)


@pytest.fixture
def new_topic(central):
    """Makes topics of one partition with settings of their own."""
    admin = AdminClient({"bootstrap.servers": central})

    def make(**settings):
        name = f"native-{uuid.uuid4().hex[:8]}"
        config = {key.replace("_", "."): value for key, value in settings.items()}
        admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)
        wait_for(lambda: name in admin.list_topics(timeout=10).topics, timeout=10, what="the topic")
        return name

    return make


@pytest.fixture
def producer(central):
    """Ours."""
    options = {"bootstrap.servers": central, "transactional.id": uuid.uuid4().hex, "linger.ms": 50}
    options |= {"queue.buffering.max.messages": 500}
    made = Producer(options, LOG)
    made.init_transactions(30)
    yield made
    made.close()


@pytest.fixture
def consumer(central):
    """Ours."""
    made = Consumer({"bootstrap.servers": central, **READING}, LOG)
    yield made
    made.close()


def drawn(draw, count):
    """Records as (key, value, timestamp, headers), with everything that may be missing or empty."""
    content = lambda: draw.choice([None, b"", draw.randbytes(draw.randint(1, 300))])  # noqa: E731
    header = lambda: (draw.choice(["trace", "é", "x" * 40]), content())  # noqa: E731
    many = [[], [], [header()], [header(), header(), header()]]
    return [(content(), content(), draw.randrange(1, 1_700_000_000_000), draw.choice(many)) for _ in range(count)]


def read_by_them(central, topic, count):
    """All records of a topic by partition, as (key, value, timestamp, headers); a commit is visible a moment later."""
    reader = confluent_kafka.Consumer({"bootstrap.servers": central, **READING, "isolation.level": "read_committed"})
    reader.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
    found, ended, deadline = defaultdict(list), set(), time.monotonic() + 30
    while len(ended) < PARTITIONS or (sum(map(len, found.values())) < count and time.monotonic() < deadline):
        for message in reader.consume(1000, 1.0):
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                ended.add(message.partition())
            else:
                record = (message.key(), message.value(), message.timestamp()[1], message.headers() or [])
                found[message.partition()].append(record)
    reader.close()
    assert sum(map(len, found.values())) == count
    return found


def test_what_we_write_is_what_they_read(central, topic, producer, draw):
    """Every part of a record, None apart from empty, in order, own headers before the stamps; a full queue waits."""
    records, kept = drawn(draw, RECORDS), defaultdict(list)
    producer.begin_transaction()
    for start in range(0, RECORDS, 700):
        part, partition = records[start : start + 700], draw.randrange(PARTITIONS)
        columns = list(zip(*part, strict=True))
        stamp = [b"%d" % place for place in range(len(part))]
        left_out = frozenset(draw.sample(range(len(part)), 5))
        rows = OutgoingRecords(
            BytesColumn.of([b"before", *columns[0], b"after"])[1:-1],
            BytesColumn.of(columns[1]),
            columns[2],
            HeaderTable.of([[("before", b"")], *columns[3]])[1:],
            [("hub.origin", BytesColumn.of(stamp)), ("late", BytesColumn.of([b"x"] * len(part)))],
            left_out,
        )
        producer.produce_all(topic, partition, rows)
        for place, (key, value, timestamp_ms, own) in enumerate(part):
            if place not in left_out:
                whole = (key, value, timestamp_ms, [*own, ("hub.origin", stamp[place]), ("late", b"x")])
                kept[partition].append(whole)
        assert list(rows) == kept[partition][-len(part) + 5 :]
    producer.commit_transaction(30)
    assert read_by_them(central, topic, sum(map(len, kept.values()))) == kept


def test_single_records(central, topic, producer):
    """Keys and values that are there, empty, or None; a full queue waits here, too."""
    pairs = [(key, value) for key in (b"k", b"", None) for value in (b"v", b"", None)] * 100
    producer.begin_transaction()
    for key, value in pairs:
        producer.produce(topic, 1, key, value)
    producer.commit_transaction(30)
    assert [record[:2] for record in read_by_them(central, topic, len(pairs))[1]] == pairs


def test_names_of_an_edge_s_making(topic, producer, consumer):
    """Header names that are drawn to lie in one place of a table cost no more than others, and stay what they are."""
    names = ["".join(bits) for bits in itertools.product(("Aa", "BB"), repeat=11)]
    headers = HeaderTable.of([[(name, None)] for name in names])
    count = len(names)
    producer.begin_transaction()
    producer.produce_all(
        topic, 0, OutgoingRecords(BytesColumn.empty(count), BytesColumn.of([b""] * count), [0] * count, headers)
    )
    producer.commit_transaction(30)
    consumer.assign([(topic, 0, 0, None)])
    found = []
    while len(found) < count:
        found += [one for chunk in consumer.poll(count, 1.0).chunks for one in chunk.headers]
    assert found == [[(name, None)] for name in names]


def test_what_they_write_is_what_we_read(central, topic, consumer, draw):
    """Every part of a record; a poll has one chunk per partition, in log order, however the partitions take turns."""
    records, kept = drawn(draw, RECORDS), defaultdict(list)
    writer = confluent_kafka.Producer({"bootstrap.servers": central, "enable.idempotence": True})
    for at, (key, value, timestamp_ms, headers) in enumerate(records):
        partition = at // 3 % PARTITIONS
        writer.produce(topic, value, key, partition, None, None, timestamp_ms, headers)
        kept[partition].append((key, value, timestamp_ms, headers))
    writer.flush(30)
    consumer.assign([(topic, partition, 0, None) for partition in range(PARTITIONS)])
    found, offsets, ended = defaultdict(list), defaultdict(list), {}
    while len(ended) < PARTITIONS:
        poll = consumer.poll(draw.randint(1, 900), 1.0)
        assert len({chunk.partition for chunk in poll.chunks}) == len(poll.chunks)
        for chunk in poll.chunks:
            assert chunk.topic == topic
            found[chunk.partition] += zip(chunk.keys, chunk.values, chunk.timestamps_ms, chunk.headers, strict=True)
            offsets[chunk.partition] += chunk.offsets
        for event in poll.events:
            assert (event.code, event.topic) == (KafkaError._PARTITION_EOF, topic)
            ended[event.partition] = event.offset
    assert found == kept
    assert ended == {partition: len(kept[partition]) for partition in range(PARTITIONS)}
    assert all(offsets[partition] == list(range(len(kept[partition]))) for partition in range(PARTITIONS))
    assert consumer.watermarks(topic, 0, 5.0) == (0, len(kept[0]))


def test_a_client_that_is_held_fetches_nothing(central, new_topic, producer, draw):
    """Before its first poll, and between two: also of what it filters out, which leaves its queue empty."""
    topic, size, count = new_topic(), 100_000, 60
    for _ in range(count // 5):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, 0, b"k", draw.randbytes(size))
        producer.flush(30)
        producer.abort_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, 0, b"k", b"the only one")
    producer.commit_transaction(30)
    statistics = ClientStatistics(50)
    little = {"queued.min.messages": 1, "fetch.max.bytes": size, "message.max.bytes": size}
    little |= {"fetch.message.max.bytes": size, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": central, **READING, **little, **statistics.options}, LOG)
    consumer.stop_fetching()
    consumer.assign([(topic, 0, 0, None)])
    time.sleep(0.7)
    consumer.poll(9, 0.0)
    consumer.stop_fetching()
    assert statistics.received_bytes < size
    time.sleep(0.5)
    consumer.poll(9, 0.05)
    consumer.stop_fetching()
    time.sleep(0.5)
    consumer.poll(9, 0.0)
    assert statistics.received_bytes < count * size / 2
    found, deadline = [], time.monotonic() + 30
    while not found and time.monotonic() < deadline:
        found = [bytes(value) for chunk in consumer.poll(9, 0.1).chunks for value in chunk.values]
    consumer.close()
    assert found == [b"the only one"]


def test_errors_are_those_of_confluent_kafka(central, topic, producer, consumer):
    """A code, a text, and what can be done; nothing is queued outside a transaction; a property that is none."""
    whole = OutgoingRecords(BytesColumn.of([b"k"]), BytesColumn.of([b"v"]), [0], HeaderTable.empty(1))
    with pytest.raises(KafkaException) as raised:
        producer.produce(topic, 0, b"k", b"v")
    assert raised.value.args[0].code() == KafkaError._STATE
    producer.begin_transaction()
    producer.produce(topic, 0, b"k", b"v")
    producer.commit_transaction(30)  # it knows the topic's partitions now
    producer.begin_transaction()
    with pytest.raises(KafkaException) as raised:
        producer.produce_all(topic, 77, whole)
    assert raised.value.args[0].code() == KafkaError._UNKNOWN_PARTITION
    producer.abort_transaction(30)
    consumer.assign([(topic, 1, 10**6, None)])
    (event,) = wait_for(lambda: consumer.poll(10, 0.2).events, timeout=30, what="the refusal")
    assert (event.code, *event[1:3]) == (KafkaError._AUTO_OFFSET_RESET, topic, 1)
    assert "out of range" in event.text
    with pytest.raises(KafkaException, match="nonsense"):
        Producer({"bootstrap.servers": central, "nonsense": 1}, LOG)


def test_an_abort_does_not_wait_for_reports_that_nobody_takes(topic, producer):
    """What is queued is reported as failed before the library ends a transaction: taken by the abort itself."""
    producer.begin_transaction()
    producer.produce(topic, 0, b"k", b"v")
    producer.commit_transaction(30)
    producer.begin_transaction()
    # The partition is part of it: librdkafka aborts before that by a request that a broker refuses (its issue 4849).
    producer.produce(topic, 0, b"k", b"v")
    producer.flush(30)
    for _ in range(300):
        producer.produce(topic, 0, b"k", b"v")
    began = time.monotonic()
    producer.abort_transaction(30)
    assert time.monotonic() - began < 5
    producer.begin_transaction()
    assert producer.failures() == []
    producer.commit_transaction(30)


def test_an_offset_of_the_newest_batch_is_known_where_a_partition_was_written(new_topic, producer):
    """It is of the transaction that was written last, and of the partition that was chosen."""
    topic = new_topic()
    ends = []
    for _ in range(2):
        producer.begin_transaction()
        for _ in range(50):
            producer.produce(topic, -1, b"k", b"v")
        producer.commit_transaction(30)
        (place,) = [at for at in producer.acknowledged if at[0] == topic]
        ends.append(producer.acknowledged[place])
    assert place[1] >= 0
    assert 0 <= ends[0] < 50 < ends[1] < 101  # a marker lies between


def test_what_central_refuses_is_told_with_place_and_code(central, new_topic, producer):
    """Topic, partition and code of the batch, nothing of its records; other batches of the transaction are purged."""
    small, timed = new_topic(max_message_bytes="900"), new_topic(message_timestamp_before_max_ms="60000")
    gone, now_ms = new_topic(), int(time.time() * 1000)

    def refused(*puts):
        """What is told when these are written: topic, timestamp and size."""
        producer.begin_transaction()
        for topic, timestamp_ms, size in puts:
            values = BytesColumn.of([b"payload-4711" + b"x" * size])
            producer.produce_all(
                topic, 0, OutgoingRecords(BytesColumn.of([b"k"]), values, [timestamp_ms], HeaderTable.empty(1))
            )
        with pytest.raises(KafkaException) as raised:
            producer.commit_transaction(30)
        assert raised.value.args[0].txn_requires_abort()
        told = [*producer.failures()]
        producer.abort_transaction(30)

        def is_told() -> bool:  # reports may still be on their way
            told.extend(producer.failures())
            return {one.topic for one in told} == {topic for topic, _, _ in puts}

        wait_for(is_told, timeout=10, what="a report on every batch")
        assert "payload" not in repr(told)
        return {(one.topic, one.partition, name_of(one.code)) for one in told}

    assert refused((small, now_ms, 2000)) == {(small, 0, "MSG_SIZE_TOO_LARGE")}
    assert refused((timed, 1, 10)) == {(timed, 0, "INVALID_TIMESTAMP")}
    admin = AdminClient({"bootstrap.servers": central})  # one that is collected gives up what it was asked
    admin.delete_topics([gone])[gone].result(30)
    told = refused((small, now_ms, 10), (gone, now_ms, 10))
    assert told == {(small, 0, "_PURGE_QUEUE"), (gone, 0, "_PURGE_QUEUE")}


def test_lines_and_statistics_arrive_where_it_is_polled(central, caplog):
    """Both in the thread that polls; a closed client says so instead of reading what is no longer there."""
    told = []
    options = {"bootstrap.servers": central, **READING, "statistics.interval.ms": 100, "stats_cb": told.append}
    made = Consumer(options | {"debug": "generic", "log_level": 7}, LOG)
    with caplog.at_level(logging.DEBUG, LOG.name):
        for _ in range(5):
            made.poll(10, 0.1)
    assert told
    assert '"client_id"' in told[0]
    assert any("[rdkafka#consumer" in record.getMessage() for record in caplog.records)
    made.close()
    made.close()
    with pytest.raises(KafkaException, match="closed"):
        made.assign([])


def test_a_producer_s_lines_and_statistics_arrive_where_it_is_polled(central, caplog):
    """Its queue is polled for events, among which they are; without them nobody hears why central takes nothing."""
    told = []
    options = {"bootstrap.servers": central, "statistics.interval.ms": 100, "stats_cb": told.append}
    made = Producer(options | {"debug": "generic", "log_level": 7}, LOG)
    with caplog.at_level(logging.DEBUG, LOG.name):
        deadline = time.monotonic() + 20
        while not told and time.monotonic() < deadline:
            made.poll(0.1)
    assert told
    assert '"client_id"' in told[0]
    assert any("[rdkafka#producer" in record.getMessage() for record in caplog.records)
    made.close()


def test_a_broker_is_asked_for_topic_ids(central, topic):
    """The one that is named and no other; what is not there has no id; a question that nobody answers ends, too."""
    admin = AdminClient({"bootstrap.servers": central})
    expected = str(admin.describe_topics(TopicCollection([topic]))[topic].result(30).topic_id)
    ids = TopicIdClient({"bootstrap.servers": central}, LOG)
    try:
        for number, broker in enumerate((1, -1), start=1):
            ids.ask(number, [topic, "nowhere"], broker, 10.0)
            answer = ids.answer(15.0)
            assert (answer.number, answer.code) == (number, 0)
            assert answer.topics == {
                topic: TopicIdResult(expected),
                "nowhere": TopicIdResult("", KafkaError.UNKNOWN_TOPIC_OR_PART),
            }
        ids.ask(3, [topic], 77, 0.5)
        assert ids.answer(0.0) is None
        assert ids.answer(10.0) == (3, KafkaError._TIMED_OUT, {})
    finally:
        ids.close()


def test_a_poll_tells_who_served_it(central, topic):
    """The broker's id, and the topics that came from it; an end of a partition knows its broker, too."""
    producer = confluent_kafka.Producer({"bootstrap.servers": central})
    producer.produce(topic, b"v", b"k", 0)
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": central, **READING}, LOG)
    try:
        consumer.assign([(topic, 0, 0, None)])
        polls = [consumer.poll(10, 0.2) for _ in range(20)]
        assert [poll.served for poll in polls if poll.chunks] == [{1: {topic}}]
        assert {event.broker for poll in polls for event in poll.events} == {1}
    finally:
        consumer.close()
