"""This module lists the members of a group, which may be consumers or workers of Connect.

Invariant: this module only asks. A group that no broker knows has no members. A group that may not be described is an
error, and never counts as empty.
"""

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from aggregator.config.model import ClusterConfig
from aggregator.errors import Unreachable
from aggregator.kafka.client import clients
from aggregator.kafka.cluster.groups import NO_CONSUMERS, NO_GROUP

_HINT = "check that the brokers run, and that the principal may describe the group: aggregator acls print"


def members(cluster: ClusterConfig, group: str, *, timeout_s: float) -> tuple[str, ...]:
    """Clients that are in the group now, as they call themselves and where they are.

    The description is of consumers only, but says whether we may know, and whether a group of another kind is there.
    Who is in that is told by the older question, which leaves out in silence what we may not describe.

    Args:
        cluster: Which one.
        group: Its name.
        timeout_s: How long to wait for each answer.

    Raises:
        Unreachable: nobody tells, or we may not know.
    """
    place, admin = f"group {group} at {cluster.bootstrap_servers}", clients.admin(cluster)
    try:
        found = admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result(timeout_s + 5)
    except KafkaException as failure:
        error = failure.args[0]
        if error.code() == NO_GROUP:
            return ()
        if error.code() != NO_CONSUMERS:
            raise Unreachable(f"{place}: {error.str()}", hint=_HINT) from None
        return tuple(sorted(_of_another_kind(admin, group, place, timeout_s)))
    except TimeoutError:
        raise Unreachable(f"{place}: no answer", hint=_HINT) from None
    return tuple(sorted(f"{who.client_id} on {who.host}" for who in found.members))


def _of_another_kind(admin: AdminClient, group: str, place: str, timeout_s: float) -> list[str]:
    """Members of a group that is there and has no consumers.

    Raises:
        Unreachable: a broker does not answer, or nobody tells of the group any more.
    """
    try:
        found = [one for one in admin.list_groups(group, timeout=timeout_s) if one.id == group]
    except KafkaException as failure:
        raise Unreachable(f"{place}: {failure.args[0].str()}", hint=_HINT) from None
    if not found or found[0].error is not None:
        why = found[0].error.str() if found else "no broker tells of it"
        raise Unreachable(f"{place}: {why}", hint=_HINT)
    return [f"{who.client_id} on {who.client_host}" for who in found[0].members]
