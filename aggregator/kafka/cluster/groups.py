"""Who is in a group of a cluster, whatever the members do there: consumers, or workers of Connect.

Invariant: asks only. A group that nobody knows has no members; one that we may not describe is an error, and never
taken for empty.
"""

from confluent_kafka import KafkaError, KafkaException

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients

_HINT = "check that the broker runs, and that the principal may describe the group: aggregator acls print"
# Newer brokers say so of a group that they do not know; to others it is dead.
_UNKNOWN = frozenset({KafkaError.GROUP_ID_NOT_FOUND})


def members(cluster: ClusterConfig, group: str, *, timeout_s: float) -> tuple[str, ...]:
    """Clients that are in the group now, as they call themselves and where they are.

    Two questions: a list leaves out what we may not describe without a word, and a description is asked for groups of
    consumers, so that what it says of other members is the library's own affair.

    Args:
        cluster: Which one.
        group: Its name.
        timeout_s: How long to wait for each answer.

    Raises:
        Unreachable: nobody tells, or we may not know.
    """
    place, admin = f"group {group} at {cluster.bootstrap_servers}", clients.admin(cluster)
    try:
        admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result(timeout_s + 5)
    except KafkaException as failure:
        if failure.args[0].code() not in _UNKNOWN:
            raise Unreachable(f"{place}: {failure.args[0].str()}", hint=_HINT) from None
    except TimeoutError:
        raise Unreachable(f"{place}: no answer", hint=_HINT) from None
    try:
        found = [one for one in admin.list_groups(group, timeout=timeout_s) if one.id == group]
    except KafkaException as failure:
        raise Unreachable(f"{place}: {failure.args[0].str()}", hint=_HINT) from None
    for one in found:
        if one.error is not None and one.error.code() not in _UNKNOWN:
            raise Unreachable(f"{place}: {one.error.str()}", hint=_HINT)
    return tuple(sorted(f"{who.client_id} on {who.client_host}" for one in found for who in one.members))
