"""This module asks for the starts and ends of partitions through the admin client.

It never derives them from what a consumer has seen.

Invariant: a read_committed end is the last stable offset; a read_uncommitted end is the high watermark. A caller that
passes `refused` gets all answers, and finds in `refused` the partitions without one. Without `refused`, a missing
answer is an error.
"""

import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from datetime import datetime
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_INVALID, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import OffsetRange, Partition
from aggregator.count_text import format_count
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.readers import leaders

TIMEOUT_S = 10.0
# The time-out for callers that ask again soon; a partition without a leader takes all of it.
_SOON_S = 1.0
# The codes of a topic shortly after it was created, its broker came back, or its leader changed. A new leader tells no
# end before it knows how far its followers are. A client drops its requests to a broker that is being restarted.
_ELECTING = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError._DESTROY_BROKER,  # noqa: SLF001 - public code
        KafkaError._NOENT,  # noqa: SLF001 - of none of the partitions the client knows a leader
        # The client's metadata are from before a restart, so its request has another leader epoch than the leader.
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
_ELECTION_TIMEOUTS = 3
# The opening of an epoch waits this long for leaders that are being elected, and then continues without them.
_BRIEF_S = 2.0
# Collects partitions without an answer, with the reason. Without it, such a partition raises an error.
PartitionErrors = dict[Partition, str]


class _Question(NamedTuple):
    """A question for an offset of a partition: which offset, and under which isolation level."""

    spec: Any
    level: Any = IsolationLevel.READ_UNCOMMITTED


_START = _Question(OffsetSpec.earliest())
_LOG_END = _Question(OffsetSpec.latest())
_STABLE_END = _Question(OffsetSpec.latest(), IsolationLevel.READ_COMMITTED)
_Answers = dict[Partition, Any]


def _list_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *questions: _Question,
    timeout_s: float = TIMEOUT_S,
    wait_s: float | None = None,
    refused: PartitionErrors | None = None,
) -> list[_Answers]:
    """The answers to each question, which are all asked at once.

    A leader that is just being elected is waited for: `wait_s` seconds; unless that is said, three time-outs where
    every answer is needed, else two seconds.
    """
    if wait_s is None:
        wait_s = _ELECTION_TIMEOUTS * timeout_s if refused is None else _BRIEF_S
    since_s = time.monotonic()
    deadline = since_s + wait_s
    answers: list[_Answers] = [{} for _ in questions]
    while asked := _send_requests(
        cluster,
        [at for at in partitions if at not in (refused or ())],
        questions,
        answers,
        since_s=since_s,
        timeout_s=timeout_s,
    ):
        again = False
        for found, at, future in asked:
            try:
                found[at] = _answer(future, timeout_s + 5)
            except _UnansweredError as error:
                leaders.invalidate(cluster, at[0])
                if error.code in _ELECTING and time.monotonic() < deadline:
                    again = True
                elif refused is not None:
                    refused[at] = f"offsets of partition {at[1]} cannot be listed: {error}"
                else:
                    raise Unreachable(
                        f"offsets of {format_count(len(asked), 'partition')} at {cluster.bootstrap_servers} cannot be"
                        f" listed: {error}",
                        hint="check that the broker runs and that the principal may describe these topics",
                    ) from None
        if again:
            time.sleep(0.05)
    return answers


class _UnansweredError(Exception):
    """Raised if no offset was told; it has the code that says why, if there is one."""

    def __init__(self, code: int | None, why: str) -> None:
        super().__init__(why)
        self.code = code


def _answer(future: "Future[Any]", timeout_s: float) -> Any:
    """What a partition's leader answered.

    Of a leader that does not answer in time librdkafka 2.x makes a result that has no error, and no offset.

    Raises:
        _UnansweredError: it told no offset.
    """
    try:
        result = future.result(timeout_s)
    except KafkaException as failure:
        raise _UnansweredError(failure.args[0].code(), failure.args[0].str()) from None
    except TimeoutError:
        raise _UnansweredError(None, "no answer") from None
    if result.offset == OFFSET_INVALID:
        raise _UnansweredError(KafkaError.REQUEST_TIMED_OUT, "the leader did not answer in time")
    return result


def _send_requests(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    questions: Sequence[_Question],
    answers: Sequence[_Answers],
    *,
    since_s: float,
    timeout_s: float,
) -> "list[tuple[_Answers, Partition, Future[Any]]]":
    """What is not answered yet, asked of every broker that leads some of it; each with where its answer goes."""
    wanted = [at for at in partitions if any(at not in found for found in answers)]
    leaderless = leaders.leaderless(cluster, wanted, since_s=since_s, timeout_s=timeout_s) if wanted else {}
    asked = [(found, at, _refusal(why)) for at, why in leaderless.items() for found in answers if at not in found]
    for found, question in zip(answers, questions, strict=True):
        lacking = {TopicPartition(*at): question.spec for at in wanted if at not in found and at not in leaderless}
        if lacking:
            futures = clients.admin(cluster).list_offsets(
                lacking, isolation_level=question.level, request_timeout=timeout_s
            )
            asked += [(found, (at.topic, at.partition), future) for at, future in futures.items()]
    return asked


def _refusal(why: KafkaError) -> "Future[Any]":
    """The failed answer to a question that is not asked."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(why))
    return future


def _offsets(found: _Answers) -> dict[Partition, int]:
    return {at: result.offset for at, result in found.items()}


def start_offsets(cluster: ClusterConfig, partitions: Collection[Partition]) -> dict[Partition, int]:
    """First offset that each partition still has.

    Raises:
        Unreachable: no answer in time.
    """
    (found,) = _list_offsets(cluster, partitions, _START)
    return _offsets(found)


def stable_end_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: PartitionErrors | None = None,
) -> dict[Partition, int]:
    """Last stable offset of each partition: the end that a read_committed reader can reach.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    (found,) = _list_offsets(cluster, partitions, _STABLE_END, timeout_s=timeout_s, refused=refused)
    return _offsets(found)


def readable_ranges(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: PartitionErrors | None = None,
) -> dict[Partition, OffsetRange]:
    """What a read_committed reader can reach of each partition; both ends are asked for at once.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    starts, stable = _list_offsets(cluster, partitions, _START, _STABLE_END, timeout_s=timeout_s, refused=refused)
    # If the log was cut or deleted to its end between the two answers, the range is empty.
    return {
        at: OffsetRange(one.offset, max(one.offset, stable[at].offset)) for at, one in starts.items() if at in stable
    }


class LogOffsets(NamedTuple):
    """The log of a partition: its start, its last stable offset, and its high watermark.

    `leader_epoch` is of the leader that told the high watermark; None where it does not tell.
    """

    start: int
    last_stable: int
    high_watermark: int
    leader_epoch: int | None = None

    @property
    def readable(self) -> OffsetRange:
        """The range that a read_committed reader can reach."""
        return OffsetRange(self.start, self.last_stable)

    @property
    def undecided(self) -> int:
        """Offsets that open transactions keep from such a reader."""
        return max(0, self.high_watermark - self.last_stable)


def log_offsets(
    cluster: ClusterConfig,
    partitions: Collection[Partition],
    *,
    timeout_s: float = TIMEOUT_S,
    refused: PartitionErrors | None = None,
) -> dict[Partition, LogOffsets]:
    """Where the log of each partition begins and ends; the last stable offset is asked for last.

    What grows meanwhile is not undecided then.

    Raises:
        Unreachable: no answer within `timeout_s` seconds.
    """
    starts, ends = _list_offsets(cluster, partitions, _START, _LOG_END, timeout_s=timeout_s, refused=refused)
    (stable,) = _list_offsets(cluster, partitions, _STABLE_END, timeout_s=timeout_s, refused=refused)
    return {
        at: LogOffsets(starts[at].offset, one.offset, ends[at].offset, ends[at].leader_epoch)
        for at, one in stable.items()
        if at in starts and at in ends
    }


def log_end_offsets(cluster: ClusterConfig, partitions: Collection[Partition]) -> dict[Partition, int]:
    """High watermark of each partition, open transactions included.

    Raises:
        Unreachable: no answer in time.
    """
    (found,) = _list_offsets(cluster, partitions, _LOG_END)
    return _offsets(found)


def leader_epoch(cluster: ClusterConfig, tp: Partition, *, timeout_s: float) -> int | None:
    """Epoch of a partition's present leader, where the cluster tells; for callers who cannot wait for an election.

    Raises:
        Unreachable: no answer within `timeout_s` seconds, or none from the leader.
    """
    since_s = time.monotonic()
    leaders.refresh(cluster, timeout_s)  # the caller expects another leader than the client knows
    ((_, _, future),) = _send_requests(cluster, [tp], [_LOG_END], [{}], since_s=since_s, timeout_s=timeout_s)
    try:
        epoch: int | None = _answer(future, timeout_s + 1).leader_epoch
    except _UnansweredError as error:
        raise Unreachable(f"{tp[0]}-{tp[1]}: {error}", hint=ASK_DOCTOR) from None
    return epoch


def undecided_ranges(
    cluster: ClusterConfig, partitions: Collection[Partition], *, wait_s: float = _BRIEF_S
) -> dict[Partition, OffsetRange]:
    """From the last stable offset to the high watermark of each partition, one batched question per broker for each.

    A partition that does not answer, as one without a leader, is left out.

    Args:
        cluster: Whose partitions.
        partitions: Which.
        wait_s: How long a leader that is just being elected is waited for, and with it all the others.
    """
    refused: PartitionErrors = {}
    stable, ends = _list_offsets(
        cluster, partitions, _STABLE_END, _LOG_END, timeout_s=_SOON_S, wait_s=wait_s, refused=refused
    )
    return {at: OffsetRange(one.offset, max(one.offset, ends[at].offset)) for at, one in stable.items() if at in ends}


def offsets_at(
    cluster: ClusterConfig, partitions: Collection[Partition], when: datetime, *, refused: PartitionErrors | None = None
) -> dict[Partition, int]:
    """First offset whose timestamp is at or after `when`; the end where every record is older.

    A time before 1970 is the beginning of 1970: below it, brokers know signs and no times.

    Raises:
        Unreachable: no answer.
    """
    asked = _Question(OffsetSpec.for_timestamp(max(0, int(when.timestamp() * 1000))))
    (answers,) = _list_offsets(cluster, partitions, asked, refused=refused)
    found = _offsets(answers)
    behind = [at for at, offset in found.items() if offset < 0]
    return {at: offset for at, offset in found.items() if offset >= 0} | stable_end_offsets(
        cluster, behind, refused=refused
    )


def first_timestamps(
    cluster: ClusterConfig, partitions: Collection[Partition], *, refused: PartitionErrors | None = None
) -> dict[Partition, int]:
    """Timestamp in ms of each partition's first record; partitions without one are left out.

    Raises:
        Unreachable: no answer.
    """
    (found,) = _list_offsets(cluster, partitions, _Question(OffsetSpec.for_timestamp(0)), refused=refused)
    return {at: result.timestamp for at, result in found.items() if result.offset >= 0}
