"""Where an edge's log was cut: the end of the records that were there when we read them.

Invariant: along a log, Kafka's leader epochs never decrease, and the epoch is raised before anything is written to a
log that may have lost its end. So records with a higher epoch than the last record that was read were written after the
cut.
"""

import time

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.readers.reader_events import Cut

_PATIENCE_S = 10.0


def find_cut(cluster: ClusterConfig, at: Partition, log: OffsetRange, leader_epoch: int) -> Cut:
    """Search a log, one record per step, for the end of what carries `leader_epoch` or a lower one.

    Raises:
        Unreachable: the edge does not answer.
    """
    reader = clients.consumer(cluster, **{"fetch.message.max.bytes": 64 * 1024, "queued.min.messages": 1})
    deadline = time.monotonic() + _PATIENCE_S
    try:
        low, high = log.start, log.end
        newer: tuple[int, int] | None = None
        while low < high:
            middle = (low + high) // 2
            found = _record_at(reader, at, middle, deadline)
            if found is None:
                high = middle
            elif found[1] > leader_epoch:
                high, newer = middle, found
            else:
                low = found[0] + 1
        return Cut(low, *(newer or (None, None)))
    except KafkaException as failure:
        raise _silent(at, failure.args[0].str()) from None
    finally:
        reader.close()


def _record_at(reader: Consumer, at: Partition, offset: int, deadline: float) -> tuple[int, int] | None:
    """Offset and leader epoch of the first record at or after `offset`; None where there is none."""
    reader.assign([TopicPartition(*at, offset)])
    while time.monotonic() < deadline:
        message = reader.poll(0.2)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return message.offset() or 0, message.leader_epoch() or 0
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public code has this name
            return None
    raise _silent(at, "no answer")


def _silent(at: Partition, why: str) -> Unreachable:
    return Unreachable(f"{at[0]}/{at[1]}: {why}", hint="check the edge's broker")
