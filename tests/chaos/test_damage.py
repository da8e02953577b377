"""Batches at an edge that nobody can read: named with their coordinates, and passed over only by a decision."""

import struct

import pytest
from confluent_kafka import Producer

from aggregator.coordinates import OffsetRange
from aggregator.kafka.readers.reader import EdgeReader
from aggregator.kafka.readers.reader_events import FaultKind, StartPosition, TruncationPoint
from tests.trial import Trial, wait_for

pytestmark = [pytest.mark.ci, pytest.mark.brokers]

BATCH = 10
COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
_HEAD = struct.Struct(">qi")  # base offset, and how much of the batch follows


@pytest.fixture
def topic(trial):
    """A topic of two partitions on the first edge; the first one gets damaged."""
    name = f"{trial.topic}-damaged"
    trial.create("eu", 2, topic=name)
    return name


def batches(trial, topic, count, **options):
    """Append batches of ten records each to the first partition, by a producer of these options."""
    producer = Producer({"bootstrap.servers": trial.sandbox.edges["eu"].bootstrap, "linger.ms": 500, **options})
    producer.produce(topic, trial.value(0), b"k", 1)  # it knows the topic now: no batch is sent before it is whole
    assert producer.flush(30) == 0
    for number in range(count):
        for place in range(BATCH):
            producer.produce(topic, trial.value(number * BATCH + place), b"k", 0)
        assert producer.flush(30) == 0


def damage(trial, topics, *numbers):
    """Flip a byte in the records of these batches, on the disk of the edge's broker, which is down meanwhile."""
    broker = trial.sandbox.edges["eu"]
    broker.stop()
    try:
        for topic in topics:
            (segment,) = (broker.brokers[0].data / f"{topic}-0").glob("*.log")
            flip(segment, numbers)
    finally:
        broker.start()


def flip(segment, numbers):
    """Damage these batches of a segment."""
    content, starts, at = bytearray(segment.read_bytes()), [], 0
    while at < len(content):
        starts.append(at)
        at += _HEAD.size + _HEAD.unpack_from(content, at)[1]
    assert [_HEAD.unpack_from(content, at)[0] for at in starts] == list(range(0, len(starts) * BATCH, BATCH))
    for number in numbers:
        content[starts[number] + 90] ^= 0xFF
    segment.write_bytes(content)


def polled(reader, at, start, enough=lambda _: False):
    """Offsets from `start` on until there are enough of them or something is damaged, and that fault.

    Behind a damaged batch the library goes astray by some bytes, and may then say that the position is lost: whoever
    looks at the edge, as a slot does, sees that it is not, and reads on.
    """
    offsets = []
    reader.assign({at: StartPosition(start)})

    def more():
        found = reader.poll(1000, 0.2)
        offsets.extend(offset for chunk in found.chunks for offset in chunk.offsets)
        for fault in found.faults:
            if fault.kind is not FaultKind.POSITION_LOST:
                return fault
            reader.assign({at: StartPosition(offsets[-1] + 1 if offsets else start)})
        return enough(offsets)

    return offsets, wait_for(more, timeout=40, what="records or a fault")


@pytest.fixture(scope="module")
def damaged(clusters, tmp_path_factory):
    """A trial with a topic of each compression, damaged while the broker was down once, and those topics."""
    trial = Trial(clusters, tmp_path_factory.mktemp("damaged"))
    topics = {compression: f"{trial.topic}-{compression}" for compression in COMPRESSIONS}
    for compression, name in topics.items():
        trial.create("eu", 2, topic=name)
        batches(trial, name, 6, **{"compression.type": compression})
    damage(trial, topics.values(), 1, 3, 4)
    yield trial, topics
    trial.close()


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_a_batch_that_is_damaged_on_disk_is_a_fault_with_its_end(damaged, compression):
    """Nothing behind it comes as if nothing were missing; two that lie side by side are one stretch."""
    trial, topics = damaged
    topic = topics[compression]
    reader = EdgeReader(trial_config(trial), buffer_bytes=1 << 20)
    try:
        for start, end, readable in ((0, 10, 20), (20, 30, 50), (14, 14, 20)):
            offsets, fault = polled(reader, (topic, 0), start)
            assert offsets == list(range(start, end))
            assert (fault.at, fault.kind) == ((topic, 0), FaultKind.DAMAGED)
            assert "CRC" in fault.detail
            assert reader.readable_from((topic, 0), end) == readable
        assert reader.readable_from((topic, 0), 5) is None
        assert polled(reader, (topic, 0), 50, lambda offsets: len(offsets) == BATCH) == (list(range(50, 60)), True)
    finally:
        reader.close()


def test_a_batch_that_inflates_beyond_the_client_s_limit_is_a_fault(trial, topic):
    """Some kilobytes of zstd that become ninety megabytes; with a higher limit the same client reads it."""
    large = {"batch.size": 200_000_000, "message.max.bytes": 200_000_000, "queue.buffering.max.kbytes": 400_000}
    options = {
        "bootstrap.servers": trial.sandbox.edges["eu"].bootstrap,
        "compression.type": "zstd",
        "linger.ms": 60_000,
    }
    producer = Producer(options | large)
    for _ in range(90):
        producer.produce(topic, bytes(1_000_000), b"k", 0)
    assert producer.flush(60) == 0
    batches(trial, topic, 1)
    reader = EdgeReader(trial_config(trial), buffer_bytes=1 << 20)
    try:
        offsets, fault = polled(reader, (topic, 0), 0)
        assert (offsets, fault.kind) == ([], FaultKind.DAMAGED)
        assert "_BAD_COMPRESSION" in fault.detail
        assert reader.readable_from((topic, 0), 0) == 90
    finally:
        reader.close()


def trial_config(trial):
    """The edge as our own clients take it."""
    return trial.sandbox.edges["eu"].config


def test_a_cut_is_looked_for_behind_damaged_batches(trial, topic):
    """Nobody can read to which side of it they belong; the edge says so, and the search does not wait for them."""
    config, at = trial_config(trial), (topic, 0)
    batches(trial, topic, 3)
    damage(trial, [topic], 1)
    batches(trial, topic, 2)
    reader = EdgeReader(config, buffer_bytes=1 << 20)
    try:
        newer = reader.leader_epoch(at)
        assert reader.find_truncation(at, OffsetRange(0, 50), newer - 1) == TruncationPoint(30, 30, newer)
        damage(trial, [topic], 2)
        assert reader.find_truncation(at, OffsetRange(0, 50), newer - 1) == TruncationPoint(30, 30, newer)
        damage(trial, [topic], 3)
        assert reader.find_truncation(at, OffsetRange(0, 50), newer - 1) == TruncationPoint(30, 30, newer)
        assert reader.find_truncation(at, OffsetRange(0, 50), newer) == TruncationPoint(50, None)
        assert reader.find_truncation(at, OffsetRange(0, 40), newer - 1) == TruncationPoint(30, 30, None)
    finally:
        reader.close()


def test_a_damaged_batch_is_a_gap_that_somebody_accepts(epochs):
    """The flow stands before it, named with its range; accepted, it goes on behind, and everything else came anyway."""
    trial = epochs.trial
    batches(trial, trial.topic, 3)
    trial.produce("us", 30)
    damage(trial, [trial.topic], 1)
    for _ in range(2):
        (plan,) = epochs.plans()
        outcome = epochs.run(plan)
        (hold,) = outcome.holds
        assert (hold.reason, hold.source.partition, str(hold.gap)) == ("gap", 0, f"[{BATCH}, {2 * BATCH})")
        assert "cannot be read" in hold.detail
    trial.check_exactly_once("us", 30, lake=False)
    recorded = trial.ledger()["eu", 0]
    assert (recorded["next_offset"], recorded["gap"]["kind"]) == (BATCH, "damaged")
    asked = ("--edge", "eu", "--topic", trial.topic, "--reason", "a broken disk", "--yes")
    accepted = trial.typed("gaps", "accept", *asked)
    assert accepted.exit_code == 0, accepted.stderr
    (plan,) = epochs.plans()
    assert epochs.run(plan).holds == ()
    assert sorted(trial.numbers("eu")) == sorted([0, *range(BATCH), *range(2 * BATCH, 3 * BATCH)])
    assert "gap" not in trial.ledger()["eu", 0]
