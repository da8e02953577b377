"""This module finds out which topics central refuses for good, from delivery reports or by asking central.

Invariant: a refusal names a topic that central itself refused. An error that may not occur again is not a refusal. If
central adds no partition to a transaction, the error says why, but not for which topic. Then central is asked about
each topic.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.kafka.client import clients
from aggregator.kafka.native.reports import Failure
from aggregator.kafka.readers.codes import RefusalKind, text_of, when_writing

_TIMEOUT_S = 5.0
_ONE_OF_MANY = frozenset({RefusalKind.TOPIC_GONE, RefusalKind.DENIED})


class Refusal(NamedTuple):
    """A refusal of central for one topic or partition.

    Attributes:
        topic: Central topic.
        partition: -1 where it is about all of them.
        kind: Kind of the refusal.
        why: The code in words.
    """

    topic: str
    partition: int
    kind: RefusalKind
    why: str

    def __str__(self) -> str:
        where = self.topic if self.partition < 0 else f"{self.topic} partition {self.partition}"
        return f"{where}: {self.why}"


def refusals(cluster: ClusterConfig, failed: Collection[Failure], code: int) -> tuple[Refusal, ...]:
    """What was refused of a transaction that has to be aborted; nothing where it may go well the next time.

    Args:
        cluster: Central.
        failed: Batches that were not written.
        code: Why the transaction has to be aborted.
    """
    found = tuple(dict.fromkeys(_of(failed)))
    if found or when_writing(code) not in _ONE_OF_MANY:
        return found
    return unwritable(cluster, [(one.topic, one.partition) for one in failed], timeout_s=_TIMEOUT_S)


def unwritable(cluster: ClusterConfig, partitions: Collection[Partition], *, timeout_s: float) -> tuple[Refusal, ...]:
    """What central would refuse of records for these partitions, by what it says of their topics.

    Args:
        cluster: Central.
        partitions: Topic and partition; -1 where the partitioner chooses.
        timeout_s: How long to wait for an answer; without one nothing is refused.
    """
    asked: dict[str, int] = {}
    for topic, partition in sorted(partitions):
        asked[topic] = max(partition, asked.get(topic, -1))
    return tuple(_of(_failures(cluster, asked, timeout_s)))


def _of(failed: Iterable[Failure]) -> Iterable[Refusal]:
    for topic, partition, code in failed:
        kind = when_writing(code)
        if isinstance(kind, RefusalKind):
            yield Refusal(topic, partition, kind, text_of(code))


def _failures(cluster: ClusterConfig, highest: Mapping[str, int], timeout_s: float) -> Iterable[Failure]:
    """Topics that are not there, or not as wide as the highest partition, or that our principal may not write."""
    if not highest:
        return
    asked = clients.admin(cluster).describe_topics(
        TopicCollection(list(highest)), include_authorized_operations=True, request_timeout=timeout_s
    )
    for name, future in asked.items():
        try:
            topic = future.result(timeout_s + 1)
        except KafkaException as error:
            yield Failure(name, -1, error.args[0].code())
        except TimeoutError:
            continue
        else:
            rights = topic.authorized_operations
            if rights is not None and AclOperation.WRITE not in rights and AclOperation.ALL not in rights:
                yield Failure(name, -1, KafkaError.TOPIC_AUTHORIZATION_FAILED)
            elif highest[name] >= len(topic.partitions):
                yield Failure(name, highest[name], KafkaError._UNKNOWN_PARTITION)  # noqa: SLF001 - public code
