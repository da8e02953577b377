"""Source offsets of MirrorMaker 2, as Connect keeps them: read, written, and what is none of them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aggregator.errors import HoldError
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.mirrormaker.connect_offsets import SourceOffsets, offset_record, source_offsets, task_count

CONNECTOR = "MirrorSourceConnector"


def record(topic: str, partition: int, value: bytes | None, *, cluster="eu", connector=CONNECTOR, at=3, offset=0):
    """As Connect's JsonConverter writes it."""
    key = json.dumps([connector, {"cluster": cluster, "partition": partition, "topic": topic}], separators=(",", ":"))
    return LogRecord(at, offset, key, value)


def test_the_last_copied_offset_is_the_position_before_ours():
    """Of several records of a source partition the last counts; a tombstone, or a null, forgets it."""
    log = [
        record("orders", 0, b'{"offset":4}'),
        record("orders", 1, b'{"offset":7}'),
        record("orders", 0, b'{"offset":41}'),
        record("orders", 2, b'{"offset":9}'),
        record("orders", 2, None),
        record("orders", 3, b'{"offset":9}'),
        record("orders", 3, b"null"),
    ]
    found = source_offsets(log, CONNECTOR, "eu")
    assert found.positions == {("orders", 0): 42, ("orders", 1): 8}
    assert set(found.records) == {("orders", partition) for partition in range(4)}, "forgotten ones keep their place"


def test_what_is_another_connectors_is_passed_over_and_named():
    """Also keys of other kinds, and keys that are none."""
    log = [
        record("orders", 0, b'{"offset":4}', cluster="us"),
        record("orders", 0, b'{"offset":4}', connector="MirrorHeartbeatConnector"),
        LogRecord(0, 0, '["file-source",{"filename":"x"}]', b'{"position":1}'),
        LogRecord(0, 0, "not json", b"\xff"),
        LogRecord(0, 0, "", None),
    ]
    found = source_offsets(log, CONNECTOR, "eu")
    assert (found.positions, found.records) == ({}, {})
    assert found.others == (("MirrorHeartbeatConnector", "eu"), (CONNECTOR, "us"))


@pytest.mark.parametrize("value", [b"", b"{}", b'{"offset":"4"}', b'{"offset":-2}', b'{"offset":4.5}', b"[4]", b"\xff"])
def test_an_offset_that_is_none_is_refused_by_name(value):
    """It would be taken for a partition that was never copied."""
    with pytest.raises(HoldError, match="orders-0, at 17 of partition 3"):
        source_offsets([record("orders", 0, value, offset=17)], CONNECTOR, "eu")


@given(
    topic=st.text("abcXYZ019._-", min_size=1, max_size=40),
    partition=st.integers(0, 2**31 - 1),
    position=st.integers(0, 2**63 - 1),
    cluster=st.text("abcXYZ019._-", min_size=1, max_size=20),
)
def test_what_is_written_is_read_back(topic, partition, position, cluster):
    """And has the bytes that Java writes, because Connect finds a record by them."""
    at = (topic, partition)
    written = offset_record(SourceOffsets(), CONNECTOR, cluster, at, position)
    java = f'["{CONNECTOR}",{{"cluster":"{cluster}","partition":{partition},"topic":"{topic}"}}]'
    assert (written.key, written.partition) == (java, None)
    found = source_offsets([LogRecord(0, 0, written.key, written.value)], CONNECTOR, cluster)
    assert found.positions == ({at: position} if position else {})


def test_a_record_takes_the_place_of_the_one_before_it():
    """Key bytes and partition: else two records of one source partition would be there, and either might win."""
    other_order = '["MirrorSourceConnector",{"topic":"orders","partition":0,"cluster":"eu"}]'
    known = source_offsets([LogRecord(11, 0, other_order, b'{"offset":4}')], CONNECTOR, "eu")
    written = offset_record(known, CONNECTOR, "eu", ("orders", 0), 100)
    assert written == (other_order, b'{"offset":99}', 11)


def test_two_offsets_of_one_partition_are_refused():
    """Other bytes, or another place: nobody can say which of them Connect takes. One that was forgotten is none."""
    mine = record("orders", 0, b'{"offset":4}')
    for other in (
        LogRecord(3, 1, mine.key.replace(",", ", "), b'{"offset":9}'),
        record("orders", 0, b'{"offset":9}', at=4),
    ):
        with pytest.raises(HoldError, match="several offsets of orders-0"):
            source_offsets([mine, other], CONNECTOR, "eu")
        gone = LogRecord(other.partition, 7, other.key, None)
        found = source_offsets([mine, other, gone], CONNECTOR, "eu")
        assert (found.positions, found.records["orders", 0].partition) == ({("orders", 0): 5}, 3)


def test_tasks_that_ran_exactly_once_are_counted():
    """The last number counts; without one it ran at least once; a number that is none is refused."""
    key = "tasks-fencing-MirrorSourceConnector"
    log = [
        LogRecord(0, 0, "connector-MirrorSourceConnector", b'{"properties":{}}'),
        LogRecord(0, 1, key, b'{"task-count":4}'),
        LogRecord(0, 2, "tasks-fencing-other", b'{"task-count":9}'),
        LogRecord(0, 3, key, b'{"task-count":2}'),
    ]
    assert task_count(log, CONNECTOR) == 2
    assert task_count(log[:1], CONNECTOR) == 0
    for value in (b"{}", b'{"task-count":-1}', b'{"task-count":true}', b'{"task-count":10001}', b"["):
        with pytest.raises(HoldError, match=key):
            task_count([*log, LogRecord(0, 4, key, value)], CONNECTOR)
