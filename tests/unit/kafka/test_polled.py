"""What a poll makes of librdkafka's messages."""

from confluent_kafka import Message

from aggregator.kafka.reader import _chunks


def message(partition: int, offset: int) -> Message:
    return Message("t", partition, offset, key=b"k%d" % offset, value=b"v", timestamp=(1, 1000 + offset))


def test_turns_of_a_few_records_are_one_chunk_per_partition_in_log_order():
    """A live edge sends its partitions in turns; each chunk costs by itself, whatever its size."""
    turns = [message(partition, 10 * turn + n) for turn in range(5) for partition in (2, 0, 1) for n in range(3)]
    chunks = list(_chunks(turns))
    assert [chunk.partition for chunk in chunks] == [2, 0, 1]
    for chunk in chunks:
        assert chunk.offsets == [10 * turn + n for turn in range(5) for n in range(3)]
        assert chunk.keys == [b"k%d" % offset for offset in chunk.offsets]
        assert chunk.timestamps_ms == [1000 + offset for offset in chunk.offsets]
