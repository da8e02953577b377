"""This module peeks at single records: the first at or after an offset, for the lag in time, and the newest ones.

Invariant: bounded in time. A missing record is a valid answer.
"""

import time
from collections.abc import Collection, Mapping
from typing import NamedTuple

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaException, Message, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.readers import ends
from aggregator.kafka.readers.polls import poll_batch

# In a topic that is written in transactions the last offsets are markers, so a look at records begins so far before.
BEFORE_END = 4
_NEWEST = 20
# If no record is found among the last offsets, so many times more are read.
_FURTHER = 50


def timestamps_at(
    cluster: ClusterConfig, positions: Mapping[Partition, int], *, timeout_s: float, committed: bool = True
) -> dict[Partition, int]:
    """Timestamp in ms of the first record at or after each position.

    Args:
        cluster: Where to look.
        positions: Next offsets.
        timeout_s: Seconds after which what has not answered is left out.
        committed: False: also records of transactions that are open or aborted.

    Returns:
        Partitions that have such a record.

    Raises:
        Unreachable: the client could not be used at all.
    """
    found = _first_at(cluster, positions, timeout_s, committed=committed)
    return {at: message.timestamp()[1] for at, message in found.items()}


class Stamped(NamedTuple):
    """A record with the time at which its cluster took it, by that cluster's clock."""

    key: bytes | None
    value: bytes | None
    stamp_ms: int


def last_timestamps(
    cluster: ClusterConfig, partitions: Collection[Partition], *, timeout_s: float
) -> dict[Partition, int]:
    """Timestamp in ms of the last committed record of each partition; partitions without one are left out.

    The record itself is read: brokers before 3.0 answer ListOffsets for the maximum timestamp with the first record.

    Args:
        cluster: Where to look.
        partitions: Which.
        timeout_s: Seconds for each of the questions.

    Raises:
        Unreachable: the cluster does not answer.
    """
    logs = ends.readable_ranges(cluster, partitions, timeout_s=timeout_s)
    found: dict[Partition, int] = {}
    span = _NEWEST
    while asked := {at: max(log.start, log.end - span) for at, log in logs.items() if len(log) and at not in found}:
        found |= _last_behind(cluster, asked, timeout_s)
        logs = {at: log for at, log in logs.items() if log.end - span > log.start}
        span *= _FURTHER
    return found


def newest_stamped(cluster: ClusterConfig, topic: str, *, timeout_s: float) -> Stamped | None:
    """One of the newest records of a topic's first partition, if the cluster stamps the topic itself.

    Args:
        cluster: Where to look.
        topic: Its name.
        timeout_s: Seconds for each of the questions.

    Raises:
        Unreachable: the cluster does not answer, or has no such topic.
    """
    at = (topic, 0)
    log = ends.readable_ranges(cluster, [at], timeout_s=timeout_s)[at]
    if not len(log):
        return None
    message = _first_at(cluster, {at: max(log.start, log.end - _NEWEST)}, timeout_s).get(at)
    if message is None or message.timestamp()[0] != TIMESTAMP_LOG_APPEND_TIME:
        return None
    return Stamped(message.key(), message.value(), message.timestamp()[1])


def _last_behind(cluster: ClusterConfig, positions: Mapping[Partition, int], timeout_s: float) -> dict[Partition, int]:
    """Timestamp of the last committed record behind each position; none where nothing but markers lies there.

    Raises:
        Unreachable: some of them were not read to their ends in time.
    """
    reader = clients.consumer(cluster)
    found: dict[Partition, int] = {}
    asked = set(positions)
    deadline = time.monotonic() + timeout_s
    try:
        reader.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()])
        while asked:
            for message in poll_batch(reader, 500, 0.05):
                at = (message.topic() or "", message.partition() or 0)
                if message.error() is None:
                    found[at] = message.timestamp()[1]
                else:
                    asked.discard(at)
            if asked and time.monotonic() > deadline:
                topic, partition = min(asked)
                raise Unreachable(
                    f"{cluster.bootstrap_servers}: {topic}-{partition} was not read to its end in time",
                    hint=ASK_DOCTOR,
                )
    except KafkaException as failure:
        raise Unreachable(f"{cluster.bootstrap_servers}: {failure.args[0].str()}", hint=ASK_DOCTOR) from None
    finally:
        reader.close()
    return found


class RecordContent(NamedTuple):
    """Holds the key, the value and the headers of a record."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


def records_at(
    cluster: ClusterConfig, positions: Mapping[Partition, int], *, timeout_s: float
) -> dict[Partition, RecordContent]:
    """The first committed record at or after each position; arguments and errors as `timestamps_at`."""
    found = _first_at(cluster, positions, timeout_s)
    return {at: RecordContent(one.key(), one.value(), tuple(one.headers() or ())) for at, one in found.items()}


def _first_at(
    cluster: ClusterConfig, positions: Mapping[Partition, int], timeout_s: float, *, committed: bool = True
) -> dict[Partition, Message]:
    """The first record at or after each position, as far as they come in time."""
    if not positions:
        return {}
    little = dict.fromkeys(("fetch.message.max.bytes", "fetch.max.bytes", "message.max.bytes"), 64 * 1024)
    fetch = little | {"queued.min.messages": 1}
    reader = clients.consumer(cluster, **fetch) if committed else clients.uncommitted_consumer(cluster, **fetch)
    found: dict[Partition, Message] = {}
    asked = set(positions)
    deadline = time.monotonic() + timeout_s
    try:
        reader.assign([TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()])
        while asked and time.monotonic() < deadline:
            for message in poll_batch(reader, 500, 0.05):
                at = (message.topic(), message.partition())
                if at in asked:
                    asked.discard(at)
                    reader.pause([TopicPartition(*at)])  # one batch of each partition is enough
                    if message.error() is None:
                        found[at] = message
    except KafkaException as failure:
        raise Unreachable(f"{cluster.bootstrap_servers}: {failure.args[0].str()}", hint=ASK_DOCTOR) from None
    finally:
        reader.close()
    return found
