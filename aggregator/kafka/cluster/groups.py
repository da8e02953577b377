"""Who is in a group of a cluster, whatever the members do there: consumers, or workers of Connect.

Invariant: asks only. A group that nobody knows has no members.
"""

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients

_HINT = "check that the broker runs, and that the principal may describe the group"


def members(cluster: ClusterConfig, group: str, *, timeout_s: float) -> tuple[str, ...]:
    """Clients that are in the group now, as they call themselves and where they are.

    librdkafka's newer question describes groups of consumers only.

    Args:
        cluster: Which one.
        group: Its name.
        timeout_s: How long to wait.

    Raises:
        Unreachable: nobody tells, or we may not know.
    """
    place = f"group {group} at {cluster.bootstrap_servers}"
    try:
        found = [one for one in clients.admin(cluster).list_groups(group, timeout=timeout_s) if one.id == group]
    except KafkaException as failure:
        raise Unreachable(f"{place}: {failure.args[0].str()}", hint=_HINT) from None
    for one in found:
        if one.error is not None and one.error.code() != KafkaError.GROUP_ID_NOT_FOUND:
            raise Unreachable(f"{place}: {one.error.str()}", hint=_HINT)
    return tuple(sorted(f"{who.client_id} on {who.client_host}" for one in found for who in one.members))
