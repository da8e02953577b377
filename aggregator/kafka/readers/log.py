"""This module reads an internal topic *to its end*: all records that were committed when the read began, or an error.

Invariant (protocol, "to its end"): the end is taken with read_uncommitted, and the read_committed end must reach it.
Only then is the log read up to there. `commit_transaction` returns before its marker is written. A read_committed
reader may therefore miss, for a moment, a commit that has already succeeded.
"""

import time
from collections.abc import Callable, Collection, Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.count_text import format_count
from aggregator.errors import FatalError, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster import topics
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.log_record import LogRecord
from aggregator.kafka.readers.polls import poll_batch
from aggregator.kafka.readers.typed_decoder import key_text

# A hanging transaction is aborted after its time-out (15 s) plus the broker's sweep interval (10 s).
END_BOUND_S = 40.0
_POLL_S = 0.005


def stable_ends(
    log_end: Callable[[], Mapping[Partition, int]],
    stable_end: Callable[[], Mapping[Partition, int]],
    *,
    timeout_s: float,
    now: Callable[[], float],
    sleep: Callable[[float], None],
) -> Mapping[Partition, int]:
    """Wait until everything that is in the logs now is decided.

    Args:
        log_end: Asks for the high watermarks, open transactions included.
        stable_end: Asks for the last stable offsets.
        timeout_s: Seconds until a stuck end is an error.
        now: Seconds on a clock that only goes forward.
        sleep: Waits.

    Returns:
        The high watermarks as they were at the call: read up to there.

    Raises:
        FatalError: the last stable offset did not reach the end within the bound.
    """
    targets = log_end()
    deadline = now() + timeout_s
    while True:
        stable = stable_end()
        stuck = sorted(at for at, end in targets.items() if stable[at] < end)
        if not stuck:
            return targets
        if now() > deadline:
            names = ", ".join(f"{topic}-{partition}" for topic, partition in stuck)
            raise FatalError(
                f"{names}: a transaction holds the last stable offset for over {timeout_s:.0f} s",
                hint="start the hub: it settles what its own ids left. `kafka-transactions.sh find-hanging` names the "
                "producer; abort only what is another's or in the hub's control topic: any other may have committed",
            )
        sleep(_POLL_S)


def decided_ranges(
    cluster: ClusterConfig, partitions: Collection[Partition], *, timeout_s: float = END_BOUND_S
) -> dict[Partition, OffsetRange]:
    """From the first offset to everything that is in the logs now, once open transactions are decided.

    Args:
        cluster: Central.
        partitions: Topics and partitions.
        timeout_s: Seconds until a stuck end is an error.

    Raises:
        FatalError: the last stable offset did not reach the end within the bound.
        Unreachable: no answer.
    """
    upto = stable_ends(
        lambda: ends.log_end_offsets(cluster, partitions),
        lambda: ends.stable_end_offsets(cluster, partitions),
        timeout_s=timeout_s,
        now=time.monotonic,
        sleep=time.sleep,
    )
    starts = ends.start_offsets(cluster, partitions)
    return {at: OffsetRange(starts[at], end) for at, end in upto.items()}


def read_to_end(
    cluster: ClusterConfig, topic: str, partitions: Collection[int], *, timeout_s: float = END_BOUND_S
) -> list[LogRecord]:
    """Read partitions of an internal topic from their beginning to their end.

    Args:
        cluster: Central.
        topic: An internal topic.
        partitions: Which partitions.
        timeout_s: Seconds until a stuck end is an error; the read never goes on with what is merely visible.

    Returns:
        Records in log order within each partition.

    Raises:
        FatalError: the last stable offset did not reach the end within the bound.
        Unreachable: central does not answer.
    """
    deadline = time.monotonic() + timeout_s
    decided = decided_ranges(cluster, [(topic, partition) for partition in partitions], timeout_s=timeout_s)
    pending = {at: offsets for at, offsets in decided.items() if offsets.end > offsets.start}
    return _read(cluster, pending, deadline) if pending else []


def read_visible(cluster: ClusterConfig, topic: str, partitions: Collection[int]) -> list[LogRecord]:
    """Read partitions of an internal topic as far as they are visible now; no proof of anything.

    Raises:
        Unreachable: central does not answer.
    """
    readable = ends.readable_ranges(cluster, [(topic, partition) for partition in partitions])
    ranges = {at: offsets for at, offsets in readable.items() if len(offsets)}
    return _read(cluster, ranges, time.monotonic() + END_BOUND_S) if ranges else []


def read_last(cluster: ClusterConfig, topic: str, max_records: int) -> list[LogRecord]:
    """Read the newest records of an internal topic that has one partition; none before the hub's first run.

    Args:
        cluster: Central.
        topic: An internal topic.
        max_records: Offsets before its end.

    Raises:
        FatalError: the last stable offset did not reach the end within the bound.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, topic):
        return []
    deadline = time.monotonic() + END_BOUND_S
    start, end = decided_ranges(cluster, [(topic, 0)], timeout_s=END_BOUND_S)[topic, 0]
    return (
        _read(cluster, {(topic, 0): OffsetRange(max(start, end - max_records), end)}, deadline) if end > start else []
    )


def _read(cluster: ClusterConfig, ranges: dict[Partition, OffsetRange], deadline: float) -> list[LogRecord]:
    # The records up to the end exist, so the broker need not wait for more before it answers.
    reader = clients.consumer(cluster, **{"fetch.wait.max.ms": 1})
    records: list[LogRecord] = []
    left = {at: offsets.end for at, offsets in ranges.items()}
    trouble: dict[Partition, str] = {}
    try:
        # A number instead of OFFSET_BEGINNING, which librdkafka looks up only half a second after a client's start.
        reader.assign([TopicPartition(*at, offsets.start) for at, offsets in ranges.items()])
        while left:
            if time.monotonic() > deadline:
                first = min(left)
                why = trouble.get(first, "no answer")
                raise Unreachable(
                    f"{format_count(len(left), 'partition')} at {cluster.bootstrap_servers} could not be read"
                    f" to the end in time, {first[0]}-{first[1]} first: {why}",
                    hint="check the broker's health and start again",
                )
            for message in poll_batch(reader, 10_000, 0.02):
                at = (message.topic(), message.partition())
                error = message.error()
                if error is None:
                    key, value = key_text(message.key()), message.value()
                    records.append(LogRecord(at[1], message.offset(), key, value, message.timestamp()[1]))
                    reached = message.offset() + 1
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - librdkafka's public code has this name
                    reached = message.offset()
                else:
                    trouble[at] = error.name()
                    continue
                if at in left and reached >= left[at]:
                    del left[at]
    except KafkaException as error:
        raise Unreachable(f"{cluster.bootstrap_servers}: {error}", hint="check the broker and its rights") from None
    finally:
        reader.close()
    return records
