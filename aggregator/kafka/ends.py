"""Ends and starts of partitions, asked through the admin client and never guessed from what a consumer has seen.

Invariant: a read_committed end is the last stable offset; a read_uncommitted end is the high watermark. Whoever gives
`refused` gets what is answered, and there the partitions that nobody answers for; else one of these is an error.
"""

import contextlib
import time
from collections.abc import Collection
from concurrent.futures import Future
from datetime import datetime
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange
from aggregator.errors import Unreachable
from aggregator.kafka import clients

Partition = tuple[str, int]
TIMEOUT_S = 10.0
# Who asks again soon anyway: a partition without a leader takes all of it.
_SOON_S = 1.0
# What a topic answers in the moments after it was created, its broker came back, or another one became its leader: that
# one tells no end before it knows how far the others are. A broker that is being restarted is let go of by the client.
_ELECTING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._DESTROY_BROKER,  # noqa: SLF001 - public code
    }
)
# The client's picture of the cluster is from before a restart, or from before the topic: a leader that answers to an
# epoch not its own, or "no leaders found", which librdkafka says only when the whole time-out is over.
_OUTDATED = frozenset(
    {KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH, KafkaError._NOENT}  # noqa: SLF001 - public code
)
_ELECTION_TIMEOUTS = 3
# Whoever asks again by himself waits no longer for a leader.
_BRIEF_S = 2.0
# Takes partitions that nobody answers for, with the reason; without it one of them is an error.
Refused = dict[Partition, str]


def _listed(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    spec: Any,
    level: Any,
    timeout_s: float,
    *,
    refused: Refused | None = None,
) -> dict[Partition, Any]:
    """One answer per partition; a leader that is just being elected is waited for, up to three time-outs."""
    deadline = time.monotonic() + (_ELECTION_TIMEOUTS * timeout_s if refused is None else _BRIEF_S)
    found: dict[Partition, Any] = {}
    while missing := [at for at in partitions if at not in found and at not in (refused or ())]:
        futures = _futures(cluster, missing, spec, level, timeout_s)
        again: KafkaError | None = None
        for at, future in futures.items():
            try:
                found[at.topic, at.partition] = future.result(timeout_s + 5)
            except (KafkaException, TimeoutError) as failure:
                error = failure.args[0] if isinstance(failure, KafkaException) else None
                why = error.str() if error else "no answer"
                if error is not None and error.code() in _ELECTING | _OUTDATED and time.monotonic() <= deadline:
                    again = error
                elif refused is not None:
                    refused[at.topic, at.partition] = f"offsets of partition {at.partition} can not be listed: {why}"
                else:
                    raise Unreachable(
                        f"offsets of {len(missing)} partitions at {cluster.bootstrap_servers} can not be listed: {why}",
                        hint="check that the broker runs and that the principal may describe these topics",
                    ) from None
        if again is not None:
            if again.code() in _OUTDATED:
                _look_again(cluster, timeout_s)
            time.sleep(0.05)
    return found


def _futures(
    cluster: ClusterConfig, partitions: Collection[Partition], spec: Any, level: Any, timeout_s: float
) -> dict[TopicPartition, "Future[Any]"]:
    """One question to every broker that leads some of them."""
    asked = {TopicPartition(topic, partition): spec for topic, partition in partitions}
    futures: dict[TopicPartition, Future[Any]] = clients.admin(cluster).list_offsets(
        asked, isolation_level=level, request_timeout=timeout_s
    )
    return futures


def _look_again(cluster: ClusterConfig, timeout_s: float) -> None:
    """Let the kept admin client ask who leads what: an outdated epoch alone does not make it, for minutes."""
    with contextlib.suppress(KafkaException):  # the next question says what is wrong
        clients.admin(cluster).list_topics(timeout=timeout_s)


def _offsets(found: dict[Partition, Any]) -> dict[Partition, int]:
    return {at: result.offset for at, result in found.items()}


def start_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: Refused | None = None,
) -> dict[Partition, int]:
    """First offset that each partition still has.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    return _offsets(
        _listed(cluster, partitions, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED, timeout_s, refused=refused)
    )


def stable_end_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: Refused | None = None,
) -> dict[Partition, int]:
    """Last stable offset of each partition: the end that a read_committed reader can reach.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    return _offsets(
        _listed(cluster, partitions, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED, timeout_s, refused=refused)
    )


class LogEnd(NamedTuple):
    """High watermark of a partition, and the epoch of the leader that said so, where it tells."""

    offset: int
    leader_epoch: int | None


def log_ends(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: Refused | None = None,
) -> dict[Partition, LogEnd]:
    """End of each partition, open transactions included.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    uncommitted = IsolationLevel.READ_UNCOMMITTED
    found = _listed(cluster, partitions, OffsetSpec.latest(), uncommitted, timeout_s, refused=refused)
    return {at: LogEnd(result.offset, result.leader_epoch) for at, result in found.items()}


def log_end_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: Refused | None = None,
) -> dict[Partition, int]:
    """High watermark of each partition, open transactions included.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    return {at: end.offset for at, end in log_ends(cluster, partitions, timeout_s=timeout_s, refused=refused).items()}


def leader_epoch(cluster: ClusterConfig, at: Partition, *, timeout_s: float) -> int | None:
    """Epoch of a partition's present leader, where the cluster tells; for callers who can not wait for an election.

    Raises:
        Unreachable: no answer within `timeout_s` seconds, or none from the leader.
    """
    _look_again(cluster, timeout_s)  # who asks expects another leader than the one that the client knows
    asked = {TopicPartition(*at): OffsetSpec.latest()}
    (future,) = clients.admin(cluster).list_offsets(asked, request_timeout=timeout_s).values()
    try:
        told: int | None = future.result(timeout_s + 1).leader_epoch
    except (KafkaException, TimeoutError) as failure:
        raise Unreachable(f"{at[0]}/{at[1]}: {failure}", hint="check the edge's broker") from None
    return told


def undecided_ranges(cluster: ClusterConfig, partitions: Collection[Partition]) -> dict[Partition, OffsetRange]:
    """From the last stable offset to the high watermark of each partition, one batched question per broker for each.

    A partition that does not answer, as one without a leader, is left out; it holds up the others for two seconds.
    """
    if not partitions:
        return {}
    refused: Refused = {}
    stable = stable_end_offsets(cluster, partitions, timeout_s=_SOON_S, refused=refused)
    ends = log_end_offsets(cluster, list(stable), timeout_s=_SOON_S, refused=refused)
    return {at: OffsetRange(stable[at], max(stable[at], end)) for at, end in ends.items()}


def offsets_at(
    cluster: ClusterConfig, partitions: Collection[Partition], when: datetime, *, refused: Refused | None = None
) -> dict[Partition, int]:
    """First offset whose timestamp is at or after `when`; the end where every record is older.

    Raises:
        Unreachable: no answer.
    """
    spec = OffsetSpec.for_timestamp(int(when.timestamp() * 1000))
    found = _offsets(_listed(cluster, partitions, spec, IsolationLevel.READ_UNCOMMITTED, TIMEOUT_S, refused=refused))
    behind = [at for at, offset in found.items() if offset < 0]
    return {at: offset for at, offset in found.items() if offset >= 0} | stable_end_offsets(
        cluster, behind, refused=refused
    )


def first_timestamps(
    cluster: ClusterConfig, partitions: Collection[Partition], *, refused: Refused | None = None
) -> dict[Partition, int]:
    """Timestamp in ms of each partition's first record; partitions without one are left out.

    Raises:
        Unreachable: no answer.
    """
    spec = OffsetSpec.for_timestamp(0)
    found = _listed(cluster, partitions, spec, IsolationLevel.READ_UNCOMMITTED, TIMEOUT_S, refused=refused)
    return {at: result.timestamp for at, result in found.items() if result.offset >= 0}


def last_timestamps(cluster: ClusterConfig, partitions: Collection[Partition]) -> dict[Partition, int]:
    """Largest record timestamp in ms of each partition; partitions without a record are left out.

    Raises:
        Unreachable: no answer.
    """
    found = _listed(cluster, partitions, OffsetSpec.max_timestamp(), IsolationLevel.READ_UNCOMMITTED, TIMEOUT_S)
    return {at: result.timestamp for at, result in found.items() if result.timestamp >= 0}
