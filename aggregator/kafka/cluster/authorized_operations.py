"""This module asks a cluster which operations the hub's principal may perform on topics.

Invariant: this module only asks. A topic that may not even be described is hidden: no broker tells whether it exists.
"""

from collections.abc import Collection

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation

from aggregator.config.model import ClusterConfig
from aggregator.errors import ASK_DOCTOR, Unreachable
from aggregator.kafka.client import clients

_NAMES = {
    AclOperation.READ: "Read",
    AclOperation.WRITE: "Write",
    AclOperation.CREATE: "Create",
    AclOperation.ALTER: "Alter",
    AclOperation.DESCRIBE: "Describe",
    AclOperation.DESCRIBE_CONFIGS: "DescribeConfigs",
    AclOperation.ALTER_CONFIGS: "AlterConfigs",
}
EVERY = frozenset(_NAMES.values())


def authorized(cluster: ClusterConfig, names: Collection[str], *, timeout_s: float) -> dict[str, frozenset[str] | None]:
    """The operations that we may do, by topic; None if it is hidden, and no entry if it does not exist.

    Args:
        cluster: Which one.
        names: Topics.
        timeout_s: How long to wait for an answer.

    Raises:
        Unreachable: no answer.
    """
    if not names:
        return {}
    asked = clients.admin(cluster).describe_topics(
        TopicCollection(sorted(names)), include_authorized_operations=True, request_timeout=timeout_s
    )
    found: dict[str, frozenset[str] | None] = {}
    for name, future in asked.items():
        try:
            operations = future.result(timeout_s + 1).authorized_operations
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                found[name] = None
            elif error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise _silent(cluster, error.args[0].str()) from None
        except TimeoutError:
            raise _silent(cluster, "no answer") from None
        else:
            whole = operations is None or AclOperation.ALL in operations  # None: the broker does not tell rights
            found[name] = EVERY if whole else frozenset(_NAMES[one] for one in operations if one in _NAMES)
    return found


def _silent(cluster: ClusterConfig, why: str) -> Unreachable:
    return Unreachable(f"rights at {cluster.bootstrap_servers}: {why}", hint=ASK_DOCTOR)
