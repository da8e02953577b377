"""This module lists consumer groups, reads their committed offsets, finds idle groups, and commits offsets for these.

Invariant: offsets are committed only for a group without members. The coordinator itself refuses a commit for any other
group.
"""

from collections.abc import Collection, Mapping

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition

from aggregator.config.model import ClusterConfig
from aggregator.coordinates import Partition
from aggregator.errors import ASK_DOCTOR, HoldError, Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster.admin_answers import TIMEOUT_S, result

_DENIED = (KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)
_IDLE = (ConsumerGroupState.EMPTY, ConsumerGroupState.DEAD)
# Newer brokers answer with this code for a missing group; older brokers call the group dead.
NO_GROUP = KafkaError.GROUP_ID_NOT_FOUND
# librdkafka's code for a group of another kind, whose members are not consumers.
NO_CONSUMERS = KafkaError._INVALID_ARG  # noqa: SLF001 - librdkafka's public code has this name
# A coordinator answers with these codes while it moves, and takes the same request later. Others concern this group.
_LATER = (
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.UNSTABLE_OFFSET_COMMIT,
)


def group_names(cluster: ClusterConfig) -> list[str]:
    """Groups that the principal may describe.

    Raises:
        Unreachable: the cluster does not answer.
    """
    asked = clients.admin(cluster).list_consumer_groups(request_timeout=TIMEOUT_S)
    return sorted(one.group_id for one in result(asked, "the list of consumer groups", cluster).valid)


def committed_offsets(cluster: ClusterConfig, group: str) -> dict[Partition, int]:
    """The next offset of each partition that a group has committed; nothing of a group that there is not.

    Raises:
        HoldError: the principal may not describe the group.
        Unreachable: the cluster does not answer.
    """
    asked = clients.admin(cluster).list_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group)], require_stable=False, request_timeout=TIMEOUT_S
    )
    try:
        found = asked[group].result(TIMEOUT_S + 5).topic_partitions or ()
    except (KafkaException, TimeoutError) as failure:
        error = failure.args[0] if isinstance(failure, KafkaException) else None
        if error is not None and error.code() == NO_GROUP:
            return {}
        raise _refusal(cluster, group, error, "Describe") from None
    return {(one.topic, one.partition): one.offset for one in found if one.error is None and one.offset >= 0}


def idle_groups(cluster: ClusterConfig, groups: Collection[str]) -> set[str]:
    """The groups that have no member or do not exist; groups of other protocols (Connect) are left out.

    Raises:
        Unreachable: the cluster does not answer.
    """
    if not groups:
        return set()
    asked = clients.admin(cluster).describe_consumer_groups(sorted(groups), request_timeout=TIMEOUT_S)
    found = set()
    for group, future in asked.items():
        try:
            if future.result(TIMEOUT_S + 5).state in _IDLE:
                found.add(group)
        except KafkaException as failure:
            if failure.args[0].code() == NO_GROUP:
                found.add(group)
            elif failure.args[0].code() not in (*_DENIED, NO_CONSUMERS):
                raise _refusal(cluster, group, failure.args[0], "Describe") from None
        except TimeoutError:
            raise _refusal(cluster, group, None, "Describe") from None
    return found


def commit_offsets(cluster: ClusterConfig, group: str, offsets: Mapping[Partition, int]) -> None:
    """Commit positions for a group that has no member.

    Raises:
        HoldError: the cluster refused: the group has a member by now, a right is missing, or a partition is not there.
        Unreachable: the cluster does not answer.
    """
    wanted = [TopicPartition(*at, offset) for at, offset in offsets.items()]
    asked = clients.admin(cluster).alter_consumer_group_offsets(
        [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=TIMEOUT_S
    )
    try:
        answered = asked[group].result(TIMEOUT_S + 5).topic_partitions or ()
    except (KafkaException, TimeoutError) as failure:
        raise _refusal(cluster, group, failure.args[0] if failure.args else None, "Read") from None
    for one in answered:
        if one.error is not None:
            raise _refusal(cluster, group, one.error, "Read")


def _refusal(cluster: ClusterConfig, group: str, error: object, right: str) -> HoldError | Unreachable:
    where = f"group {group} at {cluster.bootstrap_servers}"
    if not isinstance(error, KafkaError):
        return Unreachable(f"{where}: no answer", hint=ASK_DOCTOR)
    if error.code() in _DENIED:
        return HoldError(f"{where}: the principal lacks {right} on it", hint="aggregator acls print lists every right")
    if error.code() == KafkaError.UNKNOWN_MEMBER_ID:
        return HoldError(f"{where}: it has a member", hint="its positions are its own; stop it first")
    refused = error.code() > 0 and error.code() not in _LATER  # librdkafka's own codes are negative
    kind = HoldError if refused else Unreachable
    return kind(f"{where}: {error.str()}", hint="check the broker and the principal's rights")
