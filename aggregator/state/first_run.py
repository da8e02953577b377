"""This module gives one error for commands that need a hub's topics when no hub of that name has run yet."""

from aggregator.config.model import ClusterConfig
from aggregator.errors import FatalError
from aggregator.kafka.cluster import topics
from aggregator.state.names import HubNames


def require_run(cluster: ClusterConfig, names: HubNames, topic: str) -> None:
    """Refuse where one of the hub's own topics is not there, which its first run makes.

    Args:
        cluster: Central.
        names: The hub's own names.
        topic: What is to be read or written.

    Raises:
        FatalError: it is not there.
        Unreachable: central does not answer.
    """
    if not topics.partition_count(cluster, topic):
        raise FatalError(
            f"no hub named {names.hub} has run at {cluster.bootstrap_servers}",
            hint="aggregator run; or see `hub:` in the configuration",
        )
